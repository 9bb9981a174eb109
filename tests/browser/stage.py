"""The real page on a server of its own, and states that the real functions describe, for the moment `NOW`."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aiohttp import web

from ebbtide.kube.lease_record import Record
from ebbtide.kube.resources import NODES, PODS, STATEFUL_SETS
from ebbtide.model import Cell, NodeFacts
from ebbtide.service.listening import bind
from ebbtide.service.metrics import new_registry
from ebbtide.service.probes import Health
from ebbtide.service.server import application, serving
from reconciler.engine.events import Event, Regarding, Told
from reconciler.page.serve import routes
from reconciler.rebalance.status import CellStatus
from reconciler.rebalance.verdict import State
from reconciler.scaler.shared.conditions import Condition, Reason
from reconciler.scaler.shared.describe import describe
from reconciler.scaler.shared.facts import PodState, Pool, PoolPod, Rules
from reconciler.state import Known, Source, document
from tests.reconciler.rebalance.builders import DEFAULTS, NOW, node
from tests.reconciler.scaler.workers_now import WORKERS

Document = dict[str, Any]
LEADER: Final = Record("ebbtide-0", 15.0, NOW - 12600, NOW - 1, 3, {})
_POOL: Final = Pool(
    replicas=5,
    pods=(
        PoolPod(0, running=16, ended=1),
        PoolPod(1, running=17, reserved=2),
        PoolPod(2, running=9, reserved=1, ended=3),
        PoolPod(3, ended=2, idle=42.0),
        PoolPod(4, state=PodState.STARTING),
    ),
    waiting=(1 << 30,),
)
_TAIL: Final = Condition(Reason.TAIL_STUCK, "ordinal 4 has never run")


@dataclass(slots=True)
class Stage:
    """What the page is told; `error` is answered with 503 instead of a state."""

    state: Document
    error: str = ""
    url: str = field(default="", init=False)
    _question: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def tell(self, _request: web.Request) -> web.Response:
        self._question.set()
        if self.error:
            return web.json_response({"error": self.error}, status=503)
        return web.json_response(self.state)

    async def asked_again(self) -> None:
        """Two questions from now on: the answer to the first has been shown when the second comes."""
        for _ in range(2):
            self._question.clear()
            await self._question.wait()


@asynccontextmanager
async def staged(stage: Stage, under: str = "") -> AsyncIterator[Stage]:
    """Serves the page as the reconciler does, at `stage.url`; `under` a path, as behind a proxy that adds one."""
    listening = bind("127.0.0.1", 0)
    stage.url = f"http://127.0.0.1:{listening.getsockname()[1]}{under}/"
    app = application(new_registry("test"), Health(), [*routes(), web.get("/api/v1/state", stage.tell)])
    if under:
        outer = web.Application()
        outer.add_subapp(under, app)
        app = outer
    async with serving(app, listening):
        yield stage


def state(
    nodes: Iterable[NodeFacts] = (), leader: Record | None = LEADER, *, now: float = NOW, **special: Any
) -> Document:
    """What the leader says of these nodes; `special` replaces fields of `Known`."""
    known = Known({}, Source.LEADER, answering="ebbtide-0")
    return document(nodes, leader, replace(known, **special), DEFAULTS, now)


def every_verdict() -> Document:
    """One zone in each state, workers of every kind, decisions of both types."""
    return state(
        _nodes(),
        cells={
            Cell("prod", "us-east-1d"): CellStatus(State.CACHED, "the autoscaler has seen the taint", NOW - 900),
            Cell("prod", "us-east-1e"): CellStatus(
                State.STALE_TEMPLATE, "its last node left while tainted", NOW - 7000
            ),
        },
        workers=replace(WORKERS, shared=describe(_POOL, Rules(), (_TAIL,))),
        decisions=_decisions(),
    )


def _nodes() -> list[NodeFacts]:
    def of(group: str, zone: str, name: str, **special: Any) -> NodeFacts:
        return node(f"ip-10-0-{name}", cell=Cell(group, f"us-east-1{zone}"), **special)

    return [
        of("prod", "a", "1-17", signal=420, prevent=True, cordoned=True),
        of("prod", "a", "1-23", signal=95, prevent=True),
        *(of("prod", "a", f"1-{30 + number}", prevent=True) for number in range(6)),
        *(of("prod", "b", f"2-{number}") for number in range(9)),
        of("prod", "b", "2-40", ready_for=None),
        of("prod", "c", "3-5", signal=130),
        *(of("prod", "c", f"3-{number}") for number in range(10, 16)),
        of("prod", "d", "4-1", signal=1500, prevent=True, cordoned=True),
        of("stage", "a", "5-1", signal=700, prevent=True),
        of("stage", "a", "5-2"),
        of("stage", "b", "6-1", signal=360, prevent=True, cordoned=True),
        of("stage", "b", "6-2", signal=310, prevent=True, cordoned=True, deleting=True),
        of("stage", "c", "7-1", ignored=True),
        node("ip-10-0-9-9", signal=10, cell=None),
    ]


def _decisions() -> tuple[Told, ...]:
    pod = Regarding(PODS, "tikv-3", "uid-3", "db")
    return (
        Told(
            NOW - 7200,
            Event(
                Regarding(STATEFUL_SETS, "ldw-shared", "uid-s", "tidb-serverless"),
                "Normal",
                "SharedPoolGrown",
                "Scale",
                "The pool goes from 2 to 3 pods: 33 tasks at 16 per pod.",
            ),
        ),
        Told(
            NOW - 420,
            Event(
                Regarding(NODES, "ip-10-0-1-17", "uid-n"),
                "Normal",
                "ZoneBlocked",
                "Taint",
                "Zone us-east-1a of node group prod is blocked: two signals.",
            ),
        ),
        Told(
            NOW - 60,
            Event(pod, "Warning", "EvictionForbidden", "Evict", "The pod is not evicted: that is not permitted."),
        ),
    )
