"""What has to hold in every history of imports, judged from what is on the wire and what is stored.

address    a task runs at one place, and whoever asks for it is sent there; a client that was restarted is not
           told that its running task is unknown
unknown    no worker is deleted, and no pod of the pool scaled away, that runs a task or does not say what it runs
limit      there are never more dedicated workers than allowed, and never two of one task
redirects  chunk, flush, build and delete are never sent elsewhere by a front; nobody is sent to a front by itself
answers    what passes is answered with 503, and nobody waits longer than a worker may take to start
"""

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from ebbtide import vocabulary
from ebbtide.config.scaler import WorkerScaler
from ebbtide.sim.kinds import STATEFUL_SETS
from ebbtide.sim.loaders.floor import PORT, Floor
from ebbtide.sim.loaders.tasks import TaskNumber
from ebbtide.sim.stored import Event
from ebbtide.vocabulary import POOL_LABEL, TASK_ID_ANNOTATION
from tests.doubles.client import SUFFIX, Heard
from tests.doubles.worker import Worker
from tests.reconciler.scaler.front.laws import check
from tests.simulation.stage import Stage
from tests.simulation.wiretap import Request

SETS: Final = "/apis/apps/v1/namespaces/*/statefulsets/*"
# What a front may answer to each request that makes sense.
EXPECTED: Final = {
    "init": {302, 503},
    "state": {302, 404, 503},
    "list": {200, 503},
    "cancel": {200, 404, 503},
    "bulk": {200, 503},
    "data": {404},
}
# Seconds that a front waits beyond `start-timeout`, and that a delete may take.
_SPARE: Final = 16.0
_DELETES: Final = 66.0


class Laws:
    """Watches one history. `broken` is what was seen to be wrong; `met` counts what fronts answered, and placements.

    `entrance` is the host that leads to any front. `by_hand` is set while somebody else resizes the pool.
    `cancelled` are tasks that somebody has asked to cancel, `lost` those whose worker has lost them.
    """

    def __init__(self, stage: Stage, floor: Floor[Worker], rules: WorkerScaler, entrance: str) -> None:
        self._stage = stage
        self._floor = floor
        self._rules = rules
        self._entrance = entrance
        self.broken: list[str] = []
        self.met: Counter[str] = Counter()
        self.by_hand = False
        self.cancelled: set[str] = set()
        self.lost: set[str] = set()
        floor.on_gone = lambda _pod, worker: self.forgets(worker)
        stage.storage.listen(self._set_changed, STATEFUL_SETS)
        stage.on("DELETE", SETS, self._deleting, times=None)

    def break_(self, what: str) -> None:
        self.broken.append(f"{self._stage.time:8.3f} {what}")

    # --- workers -----------------------------------------------------------------------------------------------

    def running_at(self, task: str) -> list[str]:
        """The pods whose workers run the task now."""
        number = TaskNumber.parse(task)
        return [pod for pod, worker in self._floor.workers.items() if _runs(worker, number)]

    def begun(self, pod: str, task: str) -> None:
        """A worker begins a task."""
        others = [other for other in self.running_at(task) if other != pod]
        if others:
            self.break_(f"address: {task} begins on {pod} and runs on {', '.join(others)}")

    def forgets(self, worker: Worker) -> None:
        """A worker is gone, or has lost its tasks: that is nobody's fault here."""
        self.lost.update(str(number) for number in worker.tasks)

    # --- what is stored ----------------------------------------------------------------------------------------

    def dedicated(self) -> Iterator[str]:
        """The tasks of all dedicated workers."""
        for stored in self._stage.storage.scan(STATEFUL_SETS):
            if (stored.body["metadata"].get("labels") or {}).get(POOL_LABEL) == vocabulary.POOL_DEDICATED:
                yield stored.body["metadata"]["annotations"][TASK_ID_ANNOTATION]

    def _set_changed(self, event: Event) -> None:
        of = list(self.dedicated())
        if len(of) > self._rules.worker_count_limit:
            self.break_(f"limit: workers of {of}")
        if len(of) != len(set(of)):
            self.break_(f"limit: two workers of one task: {of}")
        if event.stored.name != self._rules.shared_pool_name or event.before is None or self.by_hand:
            return
        if event.before.uid == event.stored.uid:
            before, after = (int(stored.body["spec"]["replicas"]) for stored in (event.before, event.stored))
            for ordinal in range(after, before):
                self._must_be_free(f"{event.stored.name}-{ordinal}", "is scaled away")

    def _deleting(self, request: Request) -> None:
        """At the moment at which a deletion of ours arrives."""
        name = request.path.split("/")[-1]
        stored = self._stage.storage.peek(STATEFUL_SETS, name, self._rules.namespace)
        if stored is None or stored.uid != request.document["preconditions"]["uid"]:
            return
        task = (stored.body["metadata"].get("annotations") or {}).get(TASK_ID_ANNOTATION, "")
        if task not in self.cancelled:
            self._must_be_free(f"{name}-0", "is deleted")

    def _must_be_free(self, pod: str, why: str) -> None:
        worker = self._floor.workers.get(pod)
        if worker is None:
            return
        if worker.running:
            self.break_(f"unknown: {pod} {why} with {[str(each.task) for each in worker.tasks.values()]}")
        if worker.silent or worker.refusing:
            self.break_(f"unknown: {pod} {why} and does not say what it runs")

    # --- what is on the wire -----------------------------------------------------------------------------------

    def ear(self) -> aiohttp.TraceConfig:
        """Hears every answer that a client gets."""
        trace = aiohttp.TraceConfig()

        async def begins(_: object, context: SimpleNamespace, __: object) -> None:
            context.begun = self._stage.time

        async def ends(_: object, context: SimpleNamespace, told: aiohttp.TraceRequestEndParams) -> None:
            if self._is_front(told.url.host or ""):
                text = await told.response.text()
                heard = Heard(told.response.status, text, told.response.headers.copy())
                self._answered(told.method, told.url.host or "", dict(told.url.query), heard)
                self._waited(told.method, self._stage.time - context.begun)

        trace.on_request_start.append(begins)
        trace.on_request_end.append(ends)
        return trace

    def _is_front(self, host: str) -> bool:
        return host == self._entrance or any(replica.name == host for replica in self._stage.replicas)

    def _answered(self, method: str, host: str, query: dict[str, str], answer: Heard) -> None:
        kind = _kind(method, query)
        self.met[f"{kind} {answer.status}"] += 1
        try:
            check(answer, may_redirect=kind in ("init", "state"), fronts=(_url(host), _url(self._entrance)))
        except AssertionError as error:
            self.break_(f"redirects, answers: {kind} at {host}: {error}")
        if answer.status not in EXPECTED[kind]:
            self.break_(
                f"answers: {kind} of {query.get('task_id')} at {host} is answered {answer.status} {answer.text}"
            )
        if kind in ("init", "state"):
            self._told(kind, query["task_id"], answer)

    def _told(self, kind: str, task: str, answer: Heard) -> None:
        """Where a client is sent, and where its task is. One that is cancelled may be gone before its worker is."""
        running = [] if task in self.cancelled else self.running_at(task)
        if answer.status == 404 and any(not self._mute(pod) for pod in running):
            self.break_(f"address: {task} runs on {running} and is said to be unknown")
        if answer.status != 302:
            return
        host = urlsplit(answer.headers["Location"].removesuffix(SUFFIX)).hostname or ""
        if self._is_front(host):
            return
        pod = self._floor.pod_at(host)
        self.met[_target(pod, self._rules)] += 1
        if running and pod not in running:
            self.break_(f"address: {task} runs on {running} and its {kind} is sent to {pod or host}")

    def _mute(self, pod: str) -> bool:
        worker = self._floor.workers.get(pod)
        return worker is None or worker.silent or bool(worker.refusing)

    def _waited(self, method: str, seconds: float) -> None:
        most = _DELETES if method == "DELETE" else self._rules.start_timeout + _SPARE
        if seconds > most:
            self.break_(f"answers: a {method} has waited {seconds:.1f} s")


def _runs(worker: Worker, number: TaskNumber) -> bool:
    entry = worker.tasks.get(number)
    return entry is not None and entry.running


def _target(pod: str, rules: WorkerScaler) -> str:
    for target, beginning in (
        ("local", rules.template_sts_name),
        ("shared", rules.shared_pool_name),
        ("dedicated", rules.name),
    ):
        if pod.startswith(f"{beginning}-"):
            return target
    return "gone"


def _kind(method: str, query: dict[str, Any]) -> str:
    if method == "PUT" or "flush" in query or "build" in query:
        return "data"
    if method == "DELETE":
        return "bulk" if "task_id_prefix" in query else "cancel"
    if method == "POST":
        return "init"
    return "state" if "task_id" in query else "list"


def _url(host: str) -> str:
    return f"http://{host}:{PORT}"
