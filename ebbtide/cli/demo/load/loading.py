"""Clients that load tables, and what is seen of them and of the workers: for the chronicle, and as a scene.

It only watches what the reconciler does: answers are those that clients got, workers those that the cluster runs.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from ebbtide import vocabulary
from ebbtide.cli.demo.chronicle import Moment, What
from ebbtide.cli.demo.load.manifests import NAMESPACE, TEMPLATE
from ebbtide.cli.demo.load.scene import Doing, Kind, LoadScene, PoolView, TableView, WorkerView
from ebbtide.cli.demo.load.tables import Step, Table, human
from ebbtide.cli.demo.observer import Observer
from ebbtide.cli.demo.scene import Phase, phase_of
from ebbtide.cli.demo.stage import Stage
from ebbtide.config.scaler import WorkerScaler
from ebbtide.sim.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, STATEFUL_SETS
from ebbtide.sim.loaders.client import SUFFIX, Client, Heard, ImportFailedError
from ebbtide.sim.loaders.tasks import TaskNumber
from ebbtide.sim.loaders.worker import CLUSTER, LoadWorker
from ebbtide.sim.stored import Event, Object, Stored

_FOLLOWED: Final = frozenset(("init", "exists"))
_REDIRECTS: Final = range(300, 400)
_SERVICE_UNAVAILABLE: Final = 503
_KINDS: Final[Mapping[str, Kind]] = {vocabulary.POOL_SHARED: Kind.SHARED, vocabulary.POOL_DEDICATED: Kind.OWN}


@dataclass(slots=True)
class _Course:
    """How far one table is. `began` and `placed` are seconds since the curtain rose."""

    table: Table
    began: float
    pace: float
    step: Step = Step.ASKING
    sent: int = 0
    worker: str = ""
    refused: int = 0
    placed: float | None = None
    work: asyncio.Task[None] | None = field(default=None, repr=False)


class Loading:
    """All of it. `run` runs beside the play; tables are begun while it does."""

    def __init__(self, stage: Stage, observer: Observer, rules: WorkerScaler, seed: int) -> None:
        self._stage = stage
        self._observer = observer
        self._rules = rules
        self._rng = Random(f"{seed} clients")  # noqa: S311 - reproducible on purpose
        self._courses: dict[str, _Course] = {}
        self._answers: Counter[int] = Counter()
        self._used: set[str] = set()
        self._session: aiohttp.ClientSession | None = None
        self._group: asyncio.TaskGroup | None = None
        stage.floor.on_gone = self._worker_gone
        self._subscription = stage.storage.subscribe(self._changed, STATEFUL_SETS, replay=False)

    async def run(self) -> None:
        """Ends by cancellation."""
        connector = self._stage.floor.network.connector()
        async with aiohttp.ClientSession(connector=connector) as self._session, asyncio.TaskGroup() as self._group:
            await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self._subscription.close()

    # --- clients -------------------------------------------------------------------------------------------------

    def begin(self, *tables: Table) -> None:
        """A client each, all at once."""
        for table in tables:
            pace = table.seconds / table.chunks * self._rng.uniform(0.9, 1.1)
            course = self._courses[table.name] = _Course(table, self._observer.elapsed, pace)
            self._note(What.TABLE_BEGUN, table.name, words=human(table.size))
            self._start(course, again=False)

    def restart(self, name: str) -> None:
        """Its client ends where it stands; the next one knows how much was sent, and nothing of where to."""
        course = self._courses[name]
        assert course.work is not None
        course.work.cancel()
        self._note(What.TABLE_BEGUN_AGAIN, name)
        self._start(course, again=True)

    def _start(self, course: _Course, *, again: bool) -> None:
        assert self._group is not None
        course.work = self._group.create_task(self._load(course, again=again))

    async def _load(self, course: _Course, *, again: bool) -> None:
        table = course.table
        assert self._session is not None
        listener = partial(self._heard, course)
        client = Client(self._session, self._stage.front, table.task, CLUSTER, table.size, listener=listener)
        try:
            await (client.restart() if again else client.init())
            course.step = Step.LOADING
            await self._send(client, course)
        except ImportFailedError as failed:
            course.step = Step.FAILED
            self._note(What.TABLE_FAILED, table.name, words=str(failed))
        else:
            course.step = Step.LOADED
            self._note(What.TABLE_LOADED, table.name, node=course.worker)

    async def _send(self, client: Client, course: _Course) -> None:
        while course.sent < course.table.chunks:
            await asyncio.sleep(course.pace)
            await client.write(1, course.sent, b"rows")
            course.sent += 1
        await client.flush(1)
        await client.build()
        await client.finished()

    def _heard(self, course: _Course, heard: Heard) -> None:
        if heard.request in _FOLLOWED:
            self._answers[heard.status] += 1
        elif heard.status in _REDIRECTS:
            self._note(What.MISDIRECTED, course.table.name, words=heard.request)
        if heard.status in _REDIRECTS:
            self._sent_to(course, heard.headers["Location"])
        elif heard.status == _SERVICE_UNAVAILABLE:
            what = What.TOLD_TO_WAIT_AGAIN if course.refused else What.TOLD_TO_WAIT
            course.refused += 1
            self._note(what, course.table.name, words=heard.text.partition(":")[0].strip())

    def _sent_to(self, course: _Course, location: str) -> None:
        host = urlsplit(location.removesuffix(SUFFIX)).hostname or ""
        course.worker = self._stage.floor.pod_at(host) or host
        if course.placed is None:
            course.placed = self._observer.elapsed
        self._used.add(course.worker)
        self._note(What.SENT_TO, course.table.name, node=course.worker, words=self._kind(course.worker).value)

    # --- workers -------------------------------------------------------------------------------------------------

    def _worker_gone(self, pod: str, worker: LoadWorker) -> None:
        self._used.discard(pod)
        running = [self._table_of(entry.task) for entry in worker.tasks.values() if entry.running]
        if running:
            self._note(What.CUT_OFF, pod, words=" ".join(running))

    def _changed(self, event: Event) -> None:
        body, name = event.stored.body, event.stored.name
        pool = (body["metadata"].get("labels") or {}).get(vocabulary.POOL_LABEL)
        gone = event.type == "DELETED"
        if pool == vocabulary.POOL_DEDICATED and (gone or event.before is None):
            self._note(What.WORKER_GONE if gone else What.WORKER_MADE, name, words=self._made_for(body))
        if pool == vocabulary.POOL_SHARED:
            replicas = 0 if gone else int(body["spec"]["replicas"])
            before = 0 if event.before is None else int(event.before.body["spec"]["replicas"])
            if replicas != before:
                self._note(What.POOL_SIZED, name, words=str(replicas))

    def _made_for(self, body: Object) -> str:
        return self._table_of(TaskNumber.parse(body["metadata"]["annotations"][vocabulary.TASK_ID_ANNOTATION]))

    def _table_of(self, task: TaskNumber) -> str:
        found = (course.table.name for course in self._courses.values() if course.table.number == task.table)
        return next(found, str(task))

    def _kind(self, pod: str) -> Kind:
        stored = self._stage.storage.peek(PODS, pod, NAMESPACE)
        return Kind.LOCAL if stored is None else _kind_of(stored)

    def _note(self, what: What, who: str, **details: str) -> None:
        self._observer.chronicle.note(Moment(self._observer.elapsed, what, who, **details))

    # --- what is seen --------------------------------------------------------------------------------------------

    def scene(self) -> LoadScene:
        """How things stand."""
        order = list(Kind)
        return LoadScene(
            tables=tuple(self._table_view(course) for course in self._courses.values()),
            workers=tuple(sorted(self._workers(), key=lambda worker: (order.index(worker.kind), worker.name))),
            pool=self._pool() if self._rules.shared_pool_enabled else None,
            answers=dict(self._answers),
            left=tuple(self._left()),
        )

    def _table_view(self, course: _Course) -> TableView:
        until = self._observer.elapsed if course.placed is None else course.placed
        sent = course.sent / course.table.chunks
        return TableView(course.table, course.step, sent, course.worker, course.refused, until - course.began)

    def _workers(self) -> Iterator[WorkerView]:
        for pod in self._stage.storage.scan(PODS, NAMESPACE):
            kind, worker = _kind_of(pod), self._stage.floor.workers.get(pod.name)
            running = 0 if worker is None else worker.running
            table = self._table_of_pod(pod) if kind is Kind.OWN else ""
            yield WorkerView(pod.name, kind, self._zone(pod), self._doing(pod, running), running, table)

    def _doing(self, pod: Stored, running: int) -> Doing:
        match phase_of(pod.body):
            case Phase.LEAVING:
                return Doing.ENDING
            case Phase.WAITING:
                return Doing.WAITING
            case Phase.STARTING:
                return Doing.STARTING
        if running:
            return Doing.BUSY
        return Doing.IDLE if pod.name in self._used else Doing.READY

    def _table_of_pod(self, pod: Stored) -> str:
        owner = self._stage.storage.peek(STATEFUL_SETS, pod.name.rpartition("-")[0], NAMESPACE)
        return "" if owner is None else self._made_for(owner.body)

    def _zone(self, pod: Stored) -> str:
        node = self._stage.storage.peek(NODES, str(pod.body["spec"].get("nodeName") or ""))
        return "" if node is None else str(node.body["metadata"]["labels"].get(vocabulary.ZONE_LABEL, ""))

    def _pool(self) -> PoolView:
        rules = self._rules
        return PoolView(
            replicas=self._stage.figure("worker_scaler_shared_replicas", kind="spec"),
            desired=self._stage.figure("worker_scaler_shared_replicas", kind="desired"),
            usable=self._stage.figure("worker_scaler_shared_replicas", kind="usable"),
            full=rules.shared_scale_up_tasks_per_pod,
            most=rules.shared_max_tasks_per_pod,
            largest=rules.shared_max_replicas,
        )

    def _left(self) -> Iterator[str]:
        """What there is for workers, but for the objects of the pool that stay: its empty set and its Service."""
        stay = {TEMPLATE, *([self._rules.shared_pool_name] if self._rules.shared_pool_enabled else ())}
        for kind in (STATEFUL_SETS, SERVICES):
            yield from (each.name for each in self._stage.storage.scan(kind, NAMESPACE) if each.name not in stay)
        for kind in (PODS, PERSISTENT_VOLUME_CLAIMS):
            found = (each.name for each in self._stage.storage.scan(kind, NAMESPACE))
            yield from (name for name in found if f"{TEMPLATE}-" not in name)


def _kind_of(pod: Stored) -> Kind:
    return _KINDS.get((pod.body["metadata"].get("labels") or {}).get(vocabulary.POOL_LABEL, ""), Kind.LOCAL)
