"""The client's double has the habits of the real one, also the bad ones: what they break, a front must not do."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from itertools import repeat
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from ebbtide.sim.time import simulate
from ebbtide.sim.wire import Network
from tests.doubles.client import Client, ImportFailedError
from tests.doubles.worker import Worker

TASK = "1-170-139-0"
FRONT, WORKER = "http://front:19500", "http://worker:19500"


def play(story: Callable[[Network, Client], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        network = Network()
        timeout = aiohttp.ClientTimeout()
        async with aiohttp.ClientSession(connector=network.connector(), timeout=timeout) as session:
            await story(network, Client(session, FRONT, TASK))

    simulate(main())


class Script:
    """Gives one answer after the other; `asked` are method and path with query."""

    def __init__(self, answers: Iterable[tuple[int, str]]) -> None:
        self._answers = iter(answers)
        self.asked: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        self.asked.append(f"{request.method} {request.path_qs}")
        status, words = next(self._answers)
        return (
            web.Response(status=status, headers={"Location": words})
            if status == 302
            else web.Response(status=status, text=words)
        )


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def serve(network: Network, url: str, handler: Handler) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    network.listen(host, int(port), web.Server(handler, access_log=None))


def test_an_import_runs_from_its_init_to_its_end() -> None:
    async def story(network: Network, client: Client) -> None:
        worker = Worker()
        serve(network, FRONT, worker)
        assert (await client.run([b"one", b"two"]))["finished"]
        assert [taken.method for taken in worker.taken] == ["POST", "PUT", "PUT", "POST", "POST", "GET"]
        with pytest.raises(ImportFailedError, match="task is over"):
            await client.write(1, 3, b"late")

    play(story)


def test_that_its_task_exists_is_good_news_to_an_init() -> None:
    async def story(network: Network, client: Client) -> None:
        worker = Worker()
        worker.begin(TASK)
        serve(network, FRONT, worker)
        await client.init()
        await client.restart()

    play(story)


def test_redirects_of_init_and_existence_check_are_followed_and_remembered() -> None:
    async def story(network: Network, client: Client) -> None:
        serve(network, FRONT, Script([(302, f"{WORKER}/load_data")] * 3))
        worker = Worker()
        serve(network, WORKER, worker)
        await client.init()
        assert (client.base, client.hops) == (WORKER, 1)
        await client.load([b"rows"])
        await client.restart()
        assert (client.base, client.hops) == (WORKER, 3)

    play(story)


def test_redirects_are_followed_at_once_and_without_end() -> None:
    async def story(network: Network, client: Client) -> None:
        serve(network, FRONT, Script([*repeat((302, f"{FRONT}/load_data"), 1000), (200, "")]))
        await client.init()
        assert client.hops == 1000
        assert asyncio.get_running_loop().time() == 0

    play(story)


@pytest.mark.parametrize("location", [f"{WORKER}/load_data/", f"{WORKER}/load_data?cluster_id=7", WORKER + "/"])
def test_one_character_too_many_in_a_redirect_breaks_all_that_follows(location: str) -> None:
    async def story(network: Network, client: Client) -> None:
        serve(network, FRONT, Script([(302, location)]))
        serve(network, WORKER, Worker())
        with pytest.raises(ImportFailedError):
            await client.init()

    play(story)


@pytest.mark.parametrize(
    "request_",
    [
        lambda client: client.write(1, 1, b"rows"),
        lambda client: client.flush(1),
        lambda client: client.build(),
        lambda client: client.state(),
        lambda client: client.cancel(),
    ],
)
def test_a_redirect_of_anything_else_is_the_end(request_: Callable[[Client], Awaitable[Any]]) -> None:
    async def story(network: Network, client: Client) -> None:
        serve(network, FRONT, Script([(302, f"{WORKER}/load_data")]))
        with pytest.raises(ImportFailedError, match="302"):
            await request_(client)

    play(story)


@pytest.mark.parametrize("status", [400, 401, 404, 405, 409, 429, 502, 504])
def test_most_errors_are_the_end_at_once(status: int) -> None:
    async def story(network: Network, client: Client) -> None:
        serve(network, FRONT, Script([(status, "words")]))
        with pytest.raises(ImportFailedError, match=f"{status} words") as failed:
            await client.init()
        assert failed.value.status == status
        assert asyncio.get_running_loop().time() == 0

    play(story)


@pytest.mark.parametrize("status", [408, 500, 503])
def test_few_are_repeated_every_three_seconds_at_the_same_address(status: int) -> None:
    async def story(network: Network, client: Client) -> None:
        serve(network, FRONT, Script([(302, f"{WORKER}/load_data")]))
        script = Script([*repeat((status, "wait"), 100), (200, "")])
        serve(network, WORKER, script)
        await client.init()
        assert len(set(script.asked)) == 1
        assert asyncio.get_running_loop().time() == 300

    play(story)


def test_an_address_where_nobody_is_is_tried_for_hours() -> None:
    async def story(network: Network, client: Client) -> None:
        with pytest.raises(ImportFailedError, match="never answered"):
            await client.init()
        assert asyncio.get_running_loop().time() == 18_000

    play(story)


def test_a_server_that_comes_back_in_time_has_its_client_back() -> None:
    async def story(network: Network, client: Client) -> None:
        beginning = asyncio.create_task(client.init())
        await asyncio.sleep(600)
        serve(network, FRONT, Worker())
        await beginning

    play(story)


def test_an_error_of_its_task_is_the_end() -> None:
    async def story(network: Network, client: Client) -> None:
        worker = Worker()
        serve(network, FRONT, worker)
        await client.init()
        worker.fail(TASK, "duplicate key")
        with pytest.raises(ImportFailedError, match="duplicate key"):
            await client.finished()

    play(story)
