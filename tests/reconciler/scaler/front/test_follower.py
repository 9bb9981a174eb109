"""Replicas that do not lead: whom they take for the leader, and what they have done by it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from ebbtide import vocabulary
from ebbtide.config.names import HostPort
from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.lease_record import Record
from ebbtide.sim.time import simulate
from ebbtide.sim.wire import Network, Wire
from reconciler.scaler.front.follower import OnLease, address_of, advertised, same
from reconciler.scaler.front.forward import ANSWER_WITHIN, HEARD_FOR
from reconciler.scaler.front.query import PATH
from tests.reconciler.scaler.front.laws import check
from tests.reconciler.scaler.front.stage import (
    KNOWN,
    LEADER,
    UNKNOWN,
    ScriptedDesk,
    ScriptedLeadership,
    Stage,
    front,
    init,
    known,
    state,
    until,
)

OWN, OTHER = "http://192.0.2.1:19500", "http://192.0.2.2:19500"
LIST, DELETE, BULK = ("GET", "cluster_id=7"), ("DELETE", state()), ("DELETE", "cluster_id=7&task_id_prefix=1-170")
PASSED_ON = (LIST, DELETE, BULK)
OWN_OTHER, OTHER_OWN = (OWN, OTHER), (OTHER, OWN)


# --- whom it takes for the leader -------------------------------------------------------------------------------------


@dataclass
class Election:
    """As the lease was last seen: `holder`, what it tells, and the seconds for which it still holds."""

    holder: str | None = "other"
    url: str | None = OTHER
    left: float = 10.0
    leads: bool = False

    @property
    def observed(self) -> Record | None:
        if self.holder is None:
            return None
        told = {} if self.url is None else {vocabulary.LOAD_DATA_URL_ANNOTATION: self.url}
        return Record(self.holder, 15.0, None, None, 0, {"annotations": told})

    def permit(self) -> bool:
        return self.leads

    def remaining(self) -> float:
        return self.left


@pytest.mark.parametrize(
    ("election", "leader"),
    [
        (Election(), OTHER),
        (Election(url=f"{OTHER}/"), OTHER),
        (Election(url=f"{OTHER}/load_data"), OTHER),
        (Election(url="https://front.example/a"), "https://front.example/a"),
        (Election(left=0), ""),
        (Election(left=-3), ""),
        (Election(holder=None), ""),
        (Election(holder=""), ""),
        (Election(holder="own"), ""),
        (Election(url=None), ""),
        (Election(url=""), ""),
        (Election(url="192.0.2.2:19500"), ""),
        (Election(url=f"{OTHER}/load_data?x=1"), ""),
        (Election(url="http://u:p@192.0.2.2:19500"), ""),
        (Election(url="javascript:alert(1)"), ""),
        (Election(url="http://192.0.2.2:19500\r\nX: y"), ""),
        (Election(url=OWN), ""),
        (Election(url=f"{OWN}/load_data"), ""),
        (Election(url="HTTP://192.0.2.1:19500/"), ""),
    ],
)
def test_the_leader_is_who_holds_the_lease_now_and_tells_an_address_other_than_ours(
    election: Election, leader: str
) -> None:
    leadership = OnLease(election, "own", OWN)
    assert leadership.leader() == leader
    assert leadership.trouble()


def test_ws_03_a_follower_never_takes_its_own_address_for_the_leader_s() -> None:
    for own in ("http://front:80", "http://front", "http://FRONT.:80/"):
        assert OnLease(Election(url="http://front/"), "own", address_of(own)).leader() == ""


@pytest.mark.parametrize(
    ("election", "words"),
    [
        (Election(holder=None), "no replica leads"),
        (Election(left=0), "no replica leads"),
        (Election(holder="own"), "lost the lead"),
        (Election(url=None), "other, has told no address"),
        (Election(url=OWN), "the lease of other has not run out"),
    ],
)
def test_why_there_is_no_leader_is_told(election: Election, words: str) -> None:
    assert words in OnLease(election, "own", OWN).trouble()


@pytest.mark.parametrize(
    ("rules", "pod_ip", "port", "url"),
    [
        ({}, "10.1.2.3", 19500, "http://10.1.2.3:19500"),
        ({}, "fd00::7", 19500, "http://[fd00::7]:19500"),
        ({}, "", 19500, ""),
        ({}, "no address!", 19500, ""),
        ({"listen": HostPort("::", 19500)}, "10.1.2.3", 19500, "http://10.1.2.3:19500"),
        ({"listen": HostPort("127.0.0.1", 0)}, "10.1.2.3", 40123, "http://127.0.0.1:40123"),
        ({"listen": HostPort("127.0.0.1", 0)}, "", 40123, "http://127.0.0.1:40123"),
        ({"advertise_url": "https://front-0.example:443/"}, "10.1.2.3", 19500, "https://front-0.example:443"),
        ({"advertise_url": "http://front-0:19500/load_data"}, "", 19500, "http://front-0:19500"),
    ],
)
def test_a_replica_tells_its_own_pod_s_address_unless_the_settings_say_another(
    rules: dict[str, Any], pod_ip: str, port: int, url: str
) -> None:
    environ = {"POD_IP": pod_ip} if pod_ip else {}
    assert advertised(WorkerScaler(**rules), environ, port) == url


def test_addresses_are_the_same_when_they_lead_to_the_same_port() -> None:
    assert same("http://a:80", "HTTP://A/")
    assert same("https://a.", "https://a:443")
    assert not same("http://a:80", "https://a:80")
    assert not same("http://a:80", "http://a:81")


# --- what it has done by the leader -----------------------------------------------------------------------------------


@asynccontextmanager
async def pair(
    *, leader_leads: bool = True, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] | None = None
) -> AsyncIterator[tuple[Stage, Stage, Wire]]:
    """A follower, the front that it takes for the leader's (or any handler in its place), and the way between them."""
    async with front(known(), in_memory=True) as leader:
        leader.leadership.leading = leader_leads
        wire = leader.wire if handler is None else Wire(web.Server(handler))
        leadership = ScriptedLeadership(own=OWN, leading=False, elsewhere=OTHER)
        options: dict[str, Any] = {"in_memory": True, "elsewhere": wire.connector}
        async with Stage(ScriptedDesk(), leadership, WorkerScaler(), **options) as follower:
            leader.leadership.elsewhere = "" if leader_leads else OWN
            yield follower, leader, wire


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    simulate(story())


def test_lists_and_deletes_are_passed_on_and_the_leader_s_answers_given_back() -> None:
    async def story() -> None:
        async with pair() as (follower, leader, _):
            for request in (*PASSED_ON, ("DELETE", state(UNKNOWN)), ("DELETE", "cluster_id=7&task_id_prefix=99")):
                asked, told = await follower.ask(*request), await leader.ask(*request)
                check(asked, may_redirect=False)
                assert (asked.status, asked.text) == (told.status, told.text)
            assert leader.desk.cancelled == [str(KNOWN)] * 4

    play(story)


def test_the_leader_s_refusals_and_waits_are_given_back_too() -> None:
    async def story() -> None:
        async with pair() as (follower, leader, _):
            leader.desk.missing = "nothing has been read yet"
            answer = await follower.ask(*LIST)
            assert (answer.status, answer.text) == (503, "nothing has been read yet\n")
            check(answer, may_redirect=False)
            leader.desk.trouble = RuntimeError()
            assert (await follower.ask(*DELETE)).status == 500

    play(story)


def test_nothing_bad_is_passed_on() -> None:
    async def story() -> None:
        async with pair() as (follower, leader, _):
            for method, query in (("DELETE", state("1-2-3")), ("GET", "cluster_id=x"), ("PUT", state())):
                assert (await follower.ask(method, query)).status in (400, 404)
            assert leader.wire.accepted == 0

    play(story)


@pytest.mark.parametrize("request_", PASSED_ON)
def test_a_leader_that_is_away_is_a_passing_trouble(request_: tuple[str, str]) -> None:
    async def story() -> None:
        async with pair() as (follower, _, way):
            way.refusing = True
            answer = await follower.ask(*request_)
            check(answer, may_redirect=False)
            assert answer.status == 503

    play(story)


def answering(status: int, **headers: str) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, headers=headers, text="words of a proxy")

    return handler


@pytest.mark.parametrize("status", [301, 302, 307, 401, 408, 409, 429, 502, 504])
def test_what_a_client_must_not_see_is_not_given_back(status: int) -> None:
    async def story() -> None:
        async with pair(handler=answering(status, Location="http://elsewhere/")) as (follower, _, _):
            for request in PASSED_ON:
                answer = await follower.ask(*request)
                check(answer, may_redirect=False)
                assert answer.status == 503

    play(story)


@pytest.mark.parametrize("wait", ["", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_wait_that_is_no_number_is_made_one(wait: str) -> None:
    async def story() -> None:
        headers = {"Retry-After": wait} if wait else {}
        async with pair(handler=answering(503, **headers)) as (follower, _, _):
            check(await follower.ask(*LIST), may_redirect=False)

    play(story)


def test_a_leader_that_says_nothing_is_waited_for_a_minute_and_no_longer() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(3600)
        raise AssertionError("nobody waits that long")

    async def story() -> None:
        async with pair(handler=handler) as (follower, _, _):
            begun = asyncio.get_running_loop().time()
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(follower.ask(*request)) for request in PASSED_ON]
            assert {each.result().status for each in asked} == {503}
            assert ANSWER_WITHIN - 2 < asyncio.get_running_loop().time() - begun < ANSWER_WITHIN + 2

    play(story)


def test_a_silent_leader_is_asked_by_a_bounded_number_of_requests() -> None:
    opened, arrived = asyncio.Event(), 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal arrived
        arrived += 1
        await opened.wait()
        return web.json_response([])

    async def story() -> None:
        async with pair(handler=handler) as (follower, _, _):
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(follower.ask(*LIST)) for _ in range(1000)]
                await asyncio.sleep(10)
                assert arrived <= 64
                opened.set()
            statuses = [each.result().status for each in asked]
            assert set(statuses) == {200, 503}
            assert statuses.count(200) >= 64
            assert (await follower.ask(*LIST)).status == 200

    play(story)


def test_an_answer_without_end_is_given_up() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 2**20)

    async def story() -> None:
        async with pair(handler=handler) as (follower, _, _):
            answer = await follower.ask(*LIST)
            assert (answer.status, "too long" in answer.text) == (503, True)

    play(story)


def test_two_replicas_that_take_each_other_for_the_leader_do_not_pass_on_in_circles() -> None:
    async def story() -> None:
        network = Network()
        leaderships = [ScriptedLeadership(own, leading=False, elsewhere=other) for own, other in (OWN_OTHER, OTHER_OWN)]
        options: dict[str, Any] = {"in_memory": True, "elsewhere": network.connector}
        one, two = (Stage(ScriptedDesk(), each, WorkerScaler(), **options) for each in leaderships)
        async with one, two:
            for stage in (one, two):
                network.listen(stage.leadership.own.split("/")[2].split(":")[0], 19500, stage.service.connections)
            for request in (*PASSED_ON, *CLIENTS):
                answer = await one.ask(*request)
                check(answer, may_redirect=False)
                assert answer.status == 503
            asked = [stage.metric("worker_scaler_requests_total", request="list", code="503") for stage in (one, two)]
            assert asked == [1, 1]

    play(story)


CLIENTS = (("POST", init()), ("GET", state()))


def test_clients_are_sent_on_when_the_leader_says_that_it_leads() -> None:
    async def story() -> None:
        async with pair() as (follower, leader, _):
            for request in CLIENTS:
                answer = await follower.ask(*request)
                assert (answer.status, answer.headers["Location"]) == (302, f"{OTHER}{PATH}")
            assert leader.desk.asked == []

    play(story)


def test_nobody_is_sent_to_a_leader_that_is_not_there_any_more() -> None:
    """Its lease is in force for a while, and the client would ask at its address for hours."""

    async def story() -> None:
        async with pair() as (follower, _, way):
            assert (await follower.ask(*CLIENTS[0])).status == 302
            way.refusing = True
            way.reset()
            await asyncio.sleep(HEARD_FOR + 0.1)
            for request in CLIENTS:
                answer = await follower.ask(*request)
                check(answer, may_redirect=False)
                assert (answer.status, "not to be found" in answer.text) == (503, True)
            way.refusing = False
            await asyncio.sleep(HEARD_FOR + 0.1)
            assert (await follower.ask(*CLIENTS[0])).status == 302

    play(story)


def test_nobody_is_sent_to_a_replica_that_does_not_lead_any_more() -> None:
    async def story() -> None:
        async with pair(leader_leads=False) as (follower, _, _):
            for request in CLIENTS:
                assert (await follower.ask(*request)).status == 503

    play(story)


@pytest.mark.parametrize("status", [302, 400, 404, 500, 503])
def test_whoever_answers_at_the_leader_s_address_has_to_lead(status: int) -> None:
    async def story() -> None:
        async with pair(handler=answering(status, Location=OTHER)) as (follower, _, _):
            assert (await follower.ask(*CLIENTS[0])).status == 503

    play(story)


def test_a_silent_leader_keeps_clients_for_two_seconds_and_is_not_asked_for_each_of_them() -> None:
    arrived = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal arrived
        arrived += 1
        await asyncio.sleep(3600)
        raise AssertionError("nobody waits that long")

    async def story() -> None:
        async with pair(handler=handler) as (follower, _, _):
            begun = asyncio.get_running_loop().time()
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(follower.ask(*CLIENTS[0])) for _ in range(500)]
            assert {each.result().status for each in asked} == {503}
            assert asyncio.get_running_loop().time() - begun < 3
            assert arrived == 1

    play(story)


def test_a_delete_goes_on_at_the_leader_when_the_client_of_the_follower_hangs_up() -> None:
    async def story() -> None:
        async with pair() as (follower, leader, _):
            leader.desk.opened.clear()
            gone = asyncio.create_task(follower.ask(*DELETE))
            await until(lambda: leader.metric("worker_scaler_requests_in_flight") == 1)
            await asyncio.sleep(1)
            gone.cancel()
            await until(lambda: leader.metric("worker_scaler_requests_in_flight") == 0)
            leader.desk.opened.set()
            await until(lambda: leader.desk.cancelled == [str(KNOWN)])

    play(story)


# --- without a leader -------------------------------------------------------------------------------------------------


def test_ws_74_who_has_lost_the_lease_still_tells_where_tasks_are_but_not_where_none_are() -> None:
    async def story() -> None:
        async with front(known(), known(UNKNOWN, ready=False), in_memory=True) as stage:
            stage.leadership.leading = False
            found = await stage.ask("GET", state())
            assert (found.status, found.headers["Location"].endswith(PATH)) == (302, True)
            for query in (state(UNKNOWN), state("1-1-1-1"), state(KNOWN, cluster=8)):
                assert (await stage.ask("GET", query)).status == 503
            assert (await stage.ask("POST", init())).status == 503
            assert stage.desk.asked == []

    play(story)


def test_ws_74_memory_is_asked_only_while_nobody_else_leads() -> None:
    async def story() -> None:
        async with front(known(), in_memory=True) as stage:
            stage.leadership.leading, stage.leadership.elsewhere = False, LEADER
            answer = await stage.ask("GET", state())
            assert answer.headers["Location"] == f"{LEADER}{PATH}"
            stage.leadership.elsewhere = OTHER
            assert (await stage.ask("GET", state())).status == 503

    play(story)
