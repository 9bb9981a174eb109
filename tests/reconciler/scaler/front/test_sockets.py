"""The front on a real port: what has to survive a kernel in between, and the whole program around it."""

import asyncio
import re

import aiohttp
import pytest

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.config.names import HostPort
from ebbtide.kube.client import Client
from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import LEASES
from ebbtide.service.listening import ListenError, bind
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from reconciler.main import run
from reconciler.place import Ports
from tests.reconciler.scaler.front.stage import LOOPBACK, Stage, front, init, known, state

MEGABYTES = 20 * 2**20


async def answered(stage: Stage, head: bytes, body: int) -> bytes:
    """What is said to a client that sends so many bytes, and reads only when it has sent all of them."""
    reader, writer = await asyncio.open_connection(LOOPBACK, stage.port)
    writer.write(head)
    for _ in range(body // 2**16):
        writer.write(b"1" * 2**16)
        await writer.drain()
    writer.write(b" HTTP/1.1\r\n\r\n")
    answer = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"Content-Length: (\d+)", answer)
    assert found is not None
    text = await reader.readexactly(int(found[1]))
    writer.close()
    return answer + text


@pytest.mark.parametrize("name", ["task_id", "data_size", "cluster_id"])
async def test_the_refusal_of_ten_megabytes_in_a_parameter_arrives(name: str) -> None:
    async with front(known()) as stage:
        answer = await answered(stage, f"POST /load_data?start_ts=1&{name}=".encode(), 10 * 2**20)
        assert answer.startswith(b"HTTP/1.0 400 ")
        assert answer.split(b"\r\n\r\n")[1].startswith(f"{name} is too long".encode())
        assert stage.desk.asked == []


async def test_a_header_that_is_too_long_is_not_taken_for_a_parameter() -> None:
    async with front(known()) as stage:
        head = f"POST /load_data?{init()} HTTP/1.1\r\nHost: front\r\nX-Long: ".encode()
        answer = await answered(stage, head, 2**16)
        assert answer.startswith(b"HTTP/1.0 400 ")
        assert answer.split(b"\r\n\r\n")[1].startswith(b"a header is too long")
        assert stage.desk.asked == []


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_the_refusal_of_a_large_body_arrives(method: str) -> None:
    async with front(known()) as stage:
        query = state() + "&writer_id=1&chunk_id=1" if method == "PUT" else init()
        head = f"{method} /load_data?{query} HTTP/1.1\r\nHost: front\r\nContent-Length: {MEGABYTES + 13}\r\n\r\n"
        answer = await answered(stage, head.encode(), MEGABYTES)
        assert answer.startswith(b"HTTP/1.1 404 " if method == "PUT" else b"HTTP/1.1 400 ")
        assert b"\r\nConnection: close\r\n" in answer


async def test_hundreds_of_clients_at_once_are_all_let_in() -> None:
    async with front(known()) as stage:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(stage.ask("GET", state())) for _ in range(600)]
        assert {each.result().status for each in asked} == {302}


# --- the program ------------------------------------------------------------------------------------------------------


def settings(*, on: bool, port: int = 0) -> Settings:
    rules = {"run": on, "listen": HostPort(LOOPBACK, port)}
    return Settings.model_validate({"worker-scaler": rules, "certs": {"mode": "files"}})


async def told(client: Client) -> str:
    """The address on the lease, once somebody holds it."""
    for _ in range(2000):
        try:
            lease = await client.get(LEASES, "ebbtide-reconciler", namespace="ebbtide-system")
        except NotFound:
            await asyncio.sleep(0.01)
        else:
            return str((lease["metadata"].get("annotations") or {}).get(vocabulary.LOAD_DATA_URL_ANNOTATION, ""))
    raise TimeoutError


@pytest.mark.parametrize("on", [True, False])
async def test_the_program_serves_where_its_lease_says_or_not_at_all(on: bool) -> None:
    async with Cluster() as cluster:
        names = ("ebbtide-system", "tidb-serverless")
        cluster.create(*(objects.namespace(name) for name in names), objects.node("n", group="g", zone="z"))
        stopping, http = asyncio.Event(), bind(LOOPBACK, 0)
        program = asyncio.create_task(
            run(settings(on=on), cluster.access(), stopping=stopping, listening=http, clock=cluster.clock)
        )
        async with Client(cluster.access(), field_manager="test", user_agent="test") as client:
            url = await told(client)
        assert bool(url) is on
        if on:
            async with aiohttp.ClientSession() as session, session.get(f"{url}/load_data?cluster_id=x") as answer:
                assert answer.status == 400
        stopping.set()
        await program
        if on:
            with pytest.raises(OSError, match="Connect"):
                await asyncio.open_connection(LOOPBACK, int(url.rpartition(":")[2]))


async def test_a_port_that_is_taken_ends_the_program_and_frees_what_it_had() -> None:
    with bind(LOOPBACK, 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        http = bind(LOOPBACK, 0)
        with pytest.raises(ListenError, match=f'worker-scaler.listen = "{LOOPBACK}:{port}" cannot be listened on'):
            Ports.of(settings(on=True, port=port), http, dry_run=False)
        assert http.fileno() == -1


def test_a_dry_run_takes_no_port() -> None:
    with bind(LOOPBACK, 0) as http:
        assert Ports.of(settings(on=True), http, dry_run=True).load_data is None
