"""`/api/v1/state`: the same document from a leader, a follower, a dry run and the nodes alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import orjson
import pytest

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.config.names import HostPort
from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.lease_record import Record
from ebbtide.kube.resources import NODES, PODS
from ebbtide.model import Cell, format_time
from ebbtide.service.listening import bind
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from reconciler.engine.events import Event, Regarding, Told
from reconciler.main import run
from reconciler.rebalance.status import CellStatus
from reconciler.rebalance.verdict import State
from reconciler.state import NOTHING_KNOWN, Known, Source, document
from tests.reconciler.rebalance.builders import DEFAULTS, NOW, node, rules, signal_taint
from tests.reconciler.scaler.workers_now import WORKERS

NAMESPACE = "ebbtide-system"
DEFAULT = Settings()
LEADER = Record("one", 15.0, NOW - 60, NOW - 1, 3, {})


def states(found: dict[str, Any]) -> dict[str, str]:
    return {f"{cell['group']}/{cell['zone']}": cell["state"] for cell in found["cells"]}


def test_the_document_has_every_key_of_the_contract() -> None:
    """Keys may be added, never renamed."""
    nodes = [node("a1", signal=400, prevent=True, cordoned=True), node("a2", prevent=True), node("b1")]
    found = orjson.loads(orjson.dumps(document(nodes, LEADER, NOTHING_KNOWN, DEFAULTS, NOW)))
    assert found["leader"]["identity"] == "one"
    assert found["leader"]["since"] == format_time(NOW - 60)
    assert found["webhook"] == {"blockedZones": {"g": ["a"]}}
    first, second = found["cells"]
    assert {"group", "zone", "state", "reason", "since", "signalNodes", "oldestSignalAgeSeconds", "nodes"} <= set(first)
    assert (
        first["nodes"][0].items()
        >= {
            "name": "a1",
            "signal": True,
            "prevent": True,
            "cordoned": True,
            "ready": True,
        }.items()
    )
    assert (first["state"], first["signalNodes"], first["oldestSignalAgeSeconds"]) == ("blocked", 1, 400.0)
    assert first["signals"][0] | {"since": ""} == {
        "node": "a1",
        "since": "",
        "ageSeconds": 400.0,
        "source": "annotation",
    }
    assert (second["state"], second["since"], second["oldestSignalAgeSeconds"]) == ("open", None, 0.0)


def test_an_empty_cluster_without_a_leader_is_a_document_too() -> None:
    found = document([], None, NOTHING_KNOWN, DEFAULTS, NOW)
    assert found["cells"] == []
    assert found["leader"]["identity"] is None
    assert found["webhook"] == {"blockedZones": {}}


def test_a_released_lease_names_nobody() -> None:
    released = Record("", 1.0, NOW, NOW, 3, {})
    assert document([], released, NOTHING_KNOWN, DEFAULTS, NOW)["leader"]["identity"] is None


def test_what_the_controllers_say_comes_first_and_the_rest_is_read_off_the_nodes() -> None:
    """A leader that has just begun has looked at some zones only; none is left out."""
    known = Known({Cell("g", "a"): CellStatus(State.CACHED, "remembered", NOW - 5)}, Source.LEADER)
    nodes = [node("a1", signal=400, prevent=True, cordoned=True), node("b1", signal=10)]
    found = document(nodes, LEADER, known, DEFAULTS, NOW)
    assert states(found) == {"g/a": "cached", "g/b": "waiting"}
    assert found["source"] == "leader"
    assert found["cells"][0]["advice"]


def test_what_passes_by_itself_comes_nearer_while_the_leader_has_nothing_new_to_say() -> None:
    status = CellStatus(State.INEFFECTIVE, "unseen", NOW - 5, settles_at=NOW + 55)
    told = [status.advice(now) for now in (NOW, NOW + 25, NOW + 99)]
    assert [words.rpartition("about ")[2] for words in told] == ["55 s.", "30 s.", "0 s."]


def test_a_zone_that_lost_its_last_node_is_shown_without_nodes() -> None:
    """Only the leader knows of it: nothing on the cluster carries it."""
    known = Known({Cell("g", "a"): CellStatus(State.STALE_TEMPLATE, "the last node left", NOW)}, Source.LEADER)
    (cell,) = document([], LEADER, known, DEFAULTS, NOW)["cells"]
    assert (cell["state"], cell["nodes"]) == ("stale-template", [])
    assert "--node-info-cache-expire-time" in cell["advice"]


def test_since_is_when_a_blocked_zone_was_tainted_and_when_a_waiting_one_was_signalled() -> None:
    """For one who remembers nothing."""
    nodes = [node("a1", signal=400, prevent=True), node("b1", signal=10)]
    blocked, waiting = document(nodes, None, NOTHING_KNOWN, DEFAULTS, NOW)["cells"]
    assert blocked["since"] == format_time(1772366000)
    assert waiting["since"] == format_time(NOW - 10)


def test_signalled_nodes_outside_every_zone_are_named() -> None:
    """Nothing is done about them, which nobody would see otherwise."""
    nodes = [
        node("x2", signal=10, cell=None),
        node("x1", signal=signal_taint(), cell=None),
        node("x3", cell=None),
        node("x4", signal=10, cell=None, deleting=True),
        node("a1", signal=10),
    ]
    assert document(nodes, None, NOTHING_KNOWN, DEFAULTS, NOW)["outside"] == ["x1", "x2"]


def test_decisions_are_told_newest_first_with_their_object() -> None:
    first = Event(Regarding(NODES, "a1", "uid-a1"), "Normal", "ZoneBlocked", "Taint", "Zone a is blocked.")
    second = Event(Regarding(PODS, "p", "uid-p", "db"), "Warning", "EvictionForbidden", "Evict", "Not permitted.")
    known = replace(NOTHING_KNOWN, decisions=(Told(NOW - 60, first), Told(NOW, second)))
    found = document([], LEADER, known, DEFAULTS, NOW)["decisions"]
    assert found == [
        {
            "at": format_time(NOW),
            "type": "Warning",
            "reason": "EvictionForbidden",
            "action": "Evict",
            "note": "Not permitted.",
            "regarding": {"kind": "Pod", "namespace": "db", "name": "p"},
        },
        {
            "at": format_time(NOW - 60),
            "type": "Normal",
            "reason": "ZoneBlocked",
            "action": "Taint",
            "note": "Zone a is blocked.",
            "regarding": {"kind": "Node", "namespace": None, "name": "a1"},
        },
    ]


def test_a_switched_off_zone_rebalance_is_said() -> None:
    assert document([], None, NOTHING_KNOWN, rules(run=False), NOW)["rebalance"]["run"] is False


def test_nodes_outside_every_zone_and_dying_ones_do_no_harm() -> None:
    nodes = [node("a1", cell=None), node("b1", deleting=True, signal=signal_taint())]
    assert states(document(nodes, None, NOTHING_KNOWN, DEFAULTS, NOW)) == {"g/b": "open"}


# --- served ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def served(cluster: Cluster, *, dry_run: bool = False, settings: Settings = DEFAULT) -> AsyncIterator[str]:
    """A reconciler of its own; the URL of its page."""
    listening, stopping = bind("127.0.0.1", 0), asyncio.Event()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/api/v1/state"
    program = asyncio.ensure_future(
        run(settings, cluster.access(), dry_run=dry_run, stopping=stopping, listening=listening)
    )
    try:
        yield url
    finally:
        stopping.set()
        await program


async def fetch(url: str) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.content_type == "application/json"
        return answer.status, orjson.loads(await answer.read())


async def until(url: str, **expected: Any) -> dict[str, Any]:
    """Asks until the answer has these keys. Raises TimeoutError."""
    async with asyncio.timeout(120):
        while True:
            status, found = await fetch(url)
            if status == 200 and found.items() >= expected.items():
                return found
            await asyncio.sleep(0.05)


async def decided(url: str, reason: str) -> dict[str, Any]:
    """Asks until there is a decision of this reason. Raises TimeoutError."""
    async with asyncio.timeout(120):
        while True:
            for decision in (await fetch(url))[1].get("decisions", ()):
                if decision["reason"] == reason:
                    return dict(decision)
            await asyncio.sleep(0.05)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Zone a with an old signal, zone b without."""
    async with Cluster() as created:
        created.create(objects.namespace(NAMESPACE))
        old = objects.taint(vocabulary.SIGNAL_TAINT_KEY, "1600000000")
        created.create(objects.node("a1", group="g", zone="a", taints=[old]), objects.node("a2", group="g", zone="a"))
        created.create(objects.node("b1", group="g", zone="b"))
        yield created


async def test_the_leader_says_what_its_controllers_know(cluster: Cluster) -> None:
    async with served(cluster) as url:
        found = await until(url, source="leader", webhook={"blockedZones": {"g": ["a"]}})
        assert found["leader"]["identity"] == found["answeredBy"] is not None
        assert states(found)["g/b"] == "open"
        decision = await decided(url, "ZoneBlocked")
        assert decision["regarding"]["kind"] == "Node"
        assert decision["type"] == "Normal"


async def test_a_follower_reads_the_nodes_and_names_the_leader(cluster: Cluster) -> None:
    async with served(cluster) as leading:
        leader = (await until(leading, source="leader"))["leader"]["identity"]
        async with served(cluster) as following:
            found = await until(following, source="nodes", webhook={"blockedZones": {"g": ["a"]}})
            while found["leader"]["identity"] is None:
                found = await until(following, source="nodes")
            assert found["leader"]["identity"] == leader != found["answeredBy"]
            assert found["decisions"] == []
            assert states(found) == {"g/a": "blocked", "g/b": "open"}


async def test_a_dry_run_says_that_it_is_one(cluster: Cluster) -> None:
    """Its zone stays partial: nobody taints it. How old that is nobody's lease tells, and so it does."""
    async with served(cluster, dry_run=True) as url:
        found = await until(url, source="dry-run")
        assert states(found)["g/a"] == "partial"
        assert found["nodesAgeSeconds"] > 0.0


async def test_before_the_nodes_are_known_it_says_why_there_is_nothing(cluster: Cluster) -> None:
    cluster.wire.refusing = True
    async with served(cluster) as url:
        status, found = await fetch(url)
        assert (status, found) == (503, {"error": "the list of nodes is not complete yet"})


def test_workers_are_part_of_the_state_where_somebody_leads() -> None:
    """Without a leader it is only told whether there are to be any."""
    known = replace(NOTHING_KNOWN, workers=WORKERS)
    workers = document((), None, known, DEFAULTS, NOW)["workers"]
    assert [each["task"] for each in workers["tasks"]] == ["1-170-139--1", "1-170-139-0", "1-170-139-1"]
    assert [each["state"] for each in workers["dedicated"]] == ["busy", "starting"]
    assert workers["shared"]["replicas"] == 3
    nothing = {"run": False, "known": False, "unread": "", "dedicated": [], "shared": None, "tasks": []}
    assert document((), None, NOTHING_KNOWN, DEFAULTS, NOW)["workers"] == nothing


async def test_a_leader_and_a_dry_run_know_workers_and_a_follower_does_not(cluster: Cluster) -> None:
    """All of them say that there are to be some."""
    settings = Settings(worker_scaler=WorkerScaler(run=True, listen=HostPort("127.0.0.1", 0)))
    cluster.create(objects.namespace(settings.worker_scaler.namespace))
    async with served(cluster, settings=settings) as leader:
        await until(leader, source="leader")
        async with (
            served(cluster, settings=settings) as follower,
            served(cluster, settings=settings, dry_run=True) as dry,
        ):
            views = {
                "leader": (await until(leader, source="leader"))["workers"],
                "follower": (await until(follower))["workers"],
                "dry": (await until(dry, source="dry-run"))["workers"],
            }
    assert {name: (view["run"], view["known"]) for name, view in views.items()} == {
        "leader": (True, True),
        "follower": (True, False),
        "dry": (True, True),
    }
