"""Random histories: clients, workers, faults, kills and somebody's own deeds, in any order.

Watched all the time: the limit holds, no task has two workers, no worker goes under its task or before its client has
come. In the end, when all tasks are over and everybody can be reached, nothing is left.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.sim.faults import Answer, CutWatch, Delay, Drop, Effect, RepeatEvents, When
from ebbtide.sim.kinds import PODS, SERVICES, STATEFUL_SETS
from ebbtide.sim.stored import Event
from ebbtide.vocabulary import POOL_LABEL, TASK_ID_ANNOTATION
from reconciler.scaler.contract import Unavailable
from reconciler.scaler.dedicated.names import set_name
from reconciler.scaler.task import TaskId
from tests.doubles.worker import Worker
from tests.reconciler.scaler.dedicated.stage import SETS, Process, Stage, story, task
from tests.simulation.wiretap import Request

LIMIT: Final = 3
TASKS: Final = 5
EXPIRES, STARTS, RESERVED = 20, 40, 50
# A client comes before its promise is over.
LATEST: Final = 45.0


@dataclass(frozen=True)
class Step:
    """One thing that happens, `after` seconds after the one before; `which` chooses its subject."""

    what: str
    which: int
    after: float


DEEDS: Final = ("init", "init", "init", "end", "kill", "silence", "voice", "evict", "delete", "unserve", "cancel")
STEPS: Final = st.builds(
    Step,
    st.sampled_from((*DEEDS, "fault", "calm")),
    st.integers(0, 99),
    st.sampled_from([0.0, 0.5, 3.0, 20.0, 70.0]),
)
EFFECTS: Final[list[tuple[Effect, When]]] = [
    (Answer(409, "Conflict"), When(method="POST", path="*/statefulsets")),
    (Answer(403, "Forbidden", "exceeded quota: x"), When(method="POST", path="*/services")),
    (Answer(429, "TooManyRequests", retry_after=2), When(path="*/tidb-serverless/*")),
    (Answer(500, "InternalError"), When(method="PATCH")),
    (Answer(503, "ServiceUnavailable"), When(probability=0.3)),
    (Drop(), When(probability=0.2)),
    (Drop(processed=True), When(method="POST", probability=0.5)),
    (Drop(processed=True), When(method="DELETE")),
    (Delay(before=1.0, after=1.0, jitter=2.0), When(probability=0.5)),
    (CutWatch(after_events=1), When(method="WATCH")),
    (RepeatEvents(probability=0.5, count=None), When(method="WATCH")),
]


@dataclass
class History:
    """One of them while it plays. `excused` are sets that somebody has done away with, or whose task was cancelled."""

    stage: Stage
    process: Process
    excused: set[str] = field(default_factory=set)
    promised: dict[str, float] = field(default_factory=dict)
    clients: list["asyncio.Task[None]"] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    processes: int = 1

    # --- what has to hold ----------------------------------------------------------------------------------------

    def watch(self) -> None:
        self.stage.storage.listen(self._stored, STATEFUL_SETS)
        self.stage.on("DELETE", f"{SETS}/*", self._deleting, times=None)

    def _stored(self, event: Event) -> None:
        live = list(self._live())
        self._hold(len(live) <= LIMIT, f"more sets than {LIMIT}: {live}")
        self._hold(len(live) == len(set(live)), f"two workers of one task: {live}")

    def _hold(self, so: bool, otherwise: str) -> None:
        """Kept for the end: what is raised here would only be a fault of the API server's."""
        if not so:
            self.violations.append(f"{self.stage.time}: {otherwise}")

    def _live(self) -> Iterator[str]:
        for stored in self.stage.storage.scan(STATEFUL_SETS):
            if (stored.body["metadata"].get("labels") or {}).get(POOL_LABEL) == "dedicated":
                yield stored.body["metadata"]["annotations"][TASK_ID_ANNOTATION]

    def _deleting(self, request: Request) -> None:
        """At the moment at which a deletion of ours arrives."""
        name = request.path.split("/")[-1]
        uid = request.document["preconditions"]["uid"]
        stored = self.stage.storage.peek(STATEFUL_SETS, name, "tidb-serverless")
        if stored is None or stored.uid != uid or uid in self.excused:
            return
        worker = self._double(name)
        running = [] if worker is None else [state for state in worker.tasks.values() if state.running]
        self._hold(not running, f"{name} goes under its task")
        self._hold(self.stage.time >= self.promised.get(uid, 0.0), f"{name} goes before its client has come")

    def _double(self, name: str) -> Worker | None:
        """The worker in the set's pod, if that runs."""
        pod = self.stage.storage.peek(PODS, f"{name}-0", "tidb-serverless")
        return None if pod is None or not (pod.body.get("status") or {}).get("podIP") else self.stage.workers[pod.name]

    def uid(self, name: str) -> str:
        stored = self.stage.storage.peek(STATEFUL_SETS, name, "tidb-serverless")
        return "" if stored is None else stored.uid

    # --- what happens --------------------------------------------------------------------------------------------

    async def take(self, step: Step) -> None:
        await asyncio.sleep(step.after)
        of = task(step.which % TASKS)
        name = set_name("load-data-worker", of)
        match step.what:
            case "init":
                self.clients.append(asyncio.ensure_future(self._client(of, step.which)))
            case "end":
                self._end(step.which)
            case "kill":
                self._next_process()
            case "cancel":
                await self._cancel(of, name)
            case "fault":
                self.stage.faults.inject(*EFFECTS[step.which % len(EFFECTS)])
            case "calm":
                self.stage.faults.clear()
            case deed:
                self._others(deed, step.which, name)

    def _others(self, deed: str, which: int, name: str) -> None:
        """What workers and other people do."""
        match deed:
            case "silence" | "voice":
                for worker in list(self.stage.workers.values())[which % TASKS :: 2]:
                    worker.silent = deed == "silence"
            case "evict":
                self._remove_pod(name)
            case "delete" if self.uid(name):
                self.excused.add(self.uid(name))
                self.stage.remove(STATEFUL_SETS, name)
            case "unserve" if name in self.stage.names(SERVICES):
                self.stage.remove(SERVICES, name)

    async def _client(self, of: TaskId, delay: int) -> None:
        """Asks until it has a place, comes there some time later, and begins its task unless it is there already."""
        name = set_name("load-data-worker", of)
        while True:
            # A process that is killed is gone for its clients too; they ask the next one.
            asked = self.process.ask(of)
            await asyncio.wait((asked, self.process.work), return_when=asyncio.FIRST_COMPLETED)
            if asked.done() and asked.result().place is not None:
                break
            asked.cancel()
            await asyncio.sleep(3.0)
        uid = self.uid(name)
        self.promised[uid] = self.stage.time + LATEST
        await asyncio.sleep(delay % 9 * LATEST / 9)
        worker = self._double(name)
        if worker is not None and self.uid(name) == uid and of not in worker.tasks:
            worker.begin(str(of))
        else:
            self._hold(self.uid(name) == uid or uid in self.excused, f"{name} went before its client had come")
        self.promised.pop(uid, None)

    def _end(self, which: int) -> None:
        for worker in self.stage.workers.values():
            for state in list(worker.tasks.values()):
                if state.running and (which % 2 or state.task.engine == which % TASKS):
                    worker.finish(str(state.task))

    def _next_process(self) -> None:
        self.process.kill()
        self.processes += 1
        self.process = self.stage.start(f"number {self.processes}")

    def _remove_pod(self, name: str) -> None:
        if f"{name}-0" in self.stage.names(PODS):
            self.stage.remove(PODS, f"{name}-0", grace=0)

    async def _cancel(self, of: TaskId, name: str) -> None:
        if not self.process.dedicated.upkeep.leading or self.process.work.done():
            return
        self.excused.add(self.uid(name))
        with suppress(Unavailable):
            await self.process.dedicated.cancel(of, remove=True)

    # --- the end -------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Everything is well again and every task ends: then nothing must be left."""
        self.stage.faults.clear()
        self.stage.faults.cut_watches()
        for _ in range(40):
            for worker in self.stage.workers.values():
                worker.silent = False
            if all(client.done() for client in self.clients):
                break
            self._end(1)
            await asyncio.sleep(30.0)
        await asyncio.gather(*self.clients)
        self._end(1)
        await self.stage.until(lambda: not self.stage.left(), within=1200.0)
        await asyncio.sleep(1.0)
        assert not self.process.dedicated.records()
        states = ("starting", "ready", "busy", "idle", "unknown", "ending")
        assert not any(self.process.metric("worker_scaler_workers", pool="dedicated", state=s) for s in states)


@settings(max_examples=30)
@given(st.lists(STEPS, max_size=25))
def test_in_any_history_workers_are_limited_kept_and_gone_in_the_end(steps: list[Step]) -> None:
    @story(
        worker_count_limit=LIMIT,
        expire_seconds=EXPIRES,
        start_timeout=STARTS,
        reservation_seconds=RESERVED,
        cluster_id=7,
    )
    async def told(stage: Stage) -> None:
        history = History(stage, stage.start("number 1"))
        history.watch()
        for step in steps:
            await history.take(step)
        await history.finish()
        assert history.violations == []
        deletions = [request for request in stage.journal.deeds if request.method == "DELETE"]
        assert all(fnmatchcase(request.path, "*/tidb-serverless/*") for request in deletions)

    told()
