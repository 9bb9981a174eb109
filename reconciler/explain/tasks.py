"""Why a load-data task is where it is, or where it would go, from the functions that place it and keep its worker.

What is on the cluster is read here; what only workers and the leader know is asked of the leader, where there is one.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ebbtide.clock import Clock
from ebbtide.config import Settings
from ebbtide.config.scaler import WorkerScaler
from ebbtide.errors import EbbtideError
from ebbtide.kube.errors import Forbidden, KubeError
from ebbtide.kube.resources import CONFIG_MAPS, EVENTS, PODS, STATEFUL_SETS, Resource
from ebbtide.model import format_time
from reconciler.explain.explanation import Explanation, Facts
from reconciler.inquiry import Inquiry
from reconciler.rebalance.plan import Deed, HeldBack
from reconciler.scaler.contract import Phase, Target
from reconciler.scaler.dedicated import decide as dedicated
from reconciler.scaler.dedicated.sizes import Sizes, tiers_of
from reconciler.scaler.dedicated.snapshot import Worker
from reconciler.scaler.dedicated.snapshot import read as read_worker
from reconciler.scaler.placement import Rules, Verdict, decide
from reconciler.scaler.pods import WorkerPod, worker_pod, worker_set
from reconciler.scaler.refusals import SELECTOR, newest
from reconciler.scaler.shared import ledger
from reconciler.scaler.task import TaskId
from reconciler.sources import from_reconciler

SWITCHED_OFF = HeldBack(Deed.EVERYTHING, "", "the worker scaler is switched off: worker-scaler.run = false")
# What a task is that nobody knows.
UNKNOWN = "unknown"


@dataclass(slots=True)
class _Found:
    """What the leader and the cluster say. `leader` is its view of workers, None where it cannot be had."""

    leader: dict[str, Any] | None = None
    worker: Worker | None = None
    promise: tuple[int, ledger.Entry] | None = None
    pods: tuple[WorkerPod, ...] = ()
    unknown: list[str] = field(default_factory=list)

    def told(self, kind: str, task: TaskId) -> dict[str, Any] | None:
        """The leader's entry for the task among its `tasks`, or `dedicated` workers."""
        listed = (self.leader or {}).get(kind) or ()
        return next((each for each in listed if each["task"] == str(task)), None)


class TaskExplainer:
    """Answers one question after the other, from the cluster as it is. Raises KubeError.

    `url` is where the reconciler that leads serves its state; without one it is asked by way of the API server.
    """

    def __init__(self, inquiry: Inquiry, settings: Settings, clock: Clock, url: str = "") -> None:
        self._inquiry = inquiry
        self._url = url
        self._settings: WorkerScaler = settings.worker_scaler
        self._clock = clock

    async def explain(self, task: TaskId, size: int | None = None) -> Explanation:
        """`size` in bytes is for a task that nobody knows: where it would go."""
        found = await self._look(task)
        entry = found.told("tasks", task)
        if entry is not None:
            return self._explained(task, entry["state"], *self._of_leader(found, entry), found)
        if found.worker is not None:
            refused = await self._refusal(found.worker, found.unknown)
            return self._explained(task, *self._of_worker(found.worker, refused), found)
        if found.promise is not None:
            return self._explained(task, *self._of_promise(*found.promise), found)
        return self._of_nobody(task, size, found)

    # --- what is looked at ---------------------------------------------------------------------------------------

    async def _look(self, task: TaskId) -> _Found:
        found = _Found()
        found.leader = await self._ask_leader(found.unknown)
        found.pods = tuple(worker_pod(raw) for raw in await self._objects(PODS))
        for raw in await self._objects(STATEFUL_SETS):
            candidate = worker_set(raw)
            pod = next((pod for pod in found.pods if pod.set_uid == candidate.uid), None)
            worker = read_worker(candidate, pod)
            if candidate.pool and isinstance(worker, Worker) and worker.task == task:
                found.worker = worker
        found.promise = await self._promise(task, found.unknown)
        return found

    async def _objects(self, resource: Resource) -> list[dict[str, Any]]:
        return await self._inquiry.objects(resource, namespace=self._settings.namespace)

    async def _ask_leader(self, unknown: list[str]) -> dict[str, Any] | None:
        """The leader's view of workers; why there is none goes to `unknown`."""
        only = "which tasks the local pods have, and what workers say of theirs"
        try:
            state = await self._state()
        except (KubeError, EbbtideError) as error:
            unknown.append(f"{only}: the leader cannot be asked: {error}")
            return None
        if state is None:
            unknown.append(f"{only}: no reconciler leads (a dry run takes no lease)")
            return None
        workers = state.get("workers") or {}
        if not workers.get("known"):
            who = f"the reconciler at {self._url} does not lead, or" if self._url else "the reconciler that leads"
            unknown.append(f"{only}: {who} does not run the worker scaler")
            return None
        if workers["unread"]:
            unknown.append(f"{only}: the leader has not read everything yet: {workers['unread']}")
        return dict(workers)

    async def _state(self) -> dict[str, Any] | None:
        """The leader's document, None where nobody leads."""
        if self._url:
            return (await from_reconciler(self._url)).document
        leader = await self._inquiry.leader()
        return None if leader is None or not leader.holder else await self._inquiry.state_of_leader(leader)

    async def _promise(self, task: TaskId, unknown: list[str]) -> tuple[int, ledger.Entry] | None:
        name = ledger.name_of(self._settings.shared_pool_name)
        selector, namespace = f"metadata.name={name}", self._settings.namespace
        try:
            listed = await self._inquiry.objects(CONFIG_MAPS, namespace=namespace, field_selector=selector)
        except Forbidden as error:
            unknown.append(f"what the shared pool has promised: {error}")
            return None
        record = ledger.read(listed[0].get("data") or {}) if listed else ledger.Record()
        promises = ((n, entry) for n, entries in record.entries.items() for entry in entries)
        return next(((n, entry) for n, entry in promises if entry.task == task), None)

    async def _refusal(self, worker: Worker, unknown: list[str]) -> str:
        """Why its pod is not made, "" for a worker that has one, or where nothing is told of that."""
        if worker.pod is not None:
            return ""
        try:
            events = await self._inquiry.objects(EVENTS, namespace=worker.set.namespace, field_selector=SELECTOR)
        except Forbidden as error:
            unknown.append(f"why its pod is not made: {error}")
            return ""
        found = newest(events).get(worker.set.uid)
        return "" if found is None else found.words

    # --- what it says --------------------------------------------------------------------------------------------

    def _of_leader(self, found: _Found, entry: dict[str, Any]) -> tuple[str, Facts]:
        where = entry["worker"] or "no pod yet"
        reason = f"it is placed {entry['pool']}, on {where}"
        worker = next((each for each in (found.leader or {})["dedicated"] if each["task"] == entry["task"]), None)
        facts: Facts = {"task": _task(entry["task"], entry["cluster"], entry["dataSize"]), "place": _place(entry)}
        if entry.get("reported"):
            facts["reported"] = entry["reported"]
        if worker is not None:
            facts["worker"] = {key: worker[key] for key in ("name", "pod", "state", "reason", "trouble")}
            reason = f"{reason}: {worker['reason']}"
        return reason, facts

    def _of_worker(self, worker: Worker, refused: str) -> tuple[str, str, Facts]:
        """As a leader would decide that has just begun."""
        now, pod = self._clock.monotonic(), worker.pod
        stage = dedicated.Stage.ABSENT if pod is None else dedicated.Stage.STARTING
        stage = dedicated.Stage.READY if pod is not None and pod.ready else stage
        facts = dedicated.Facts(stage=stage, used_at=now, ran=worker.ran, ending=worker.set.deleting, refused=refused)
        verdict = dedicated.decide(facts, dedicated.Rules.of(self._settings), now)
        name = None if pod is None else pod.name
        place = {"pool": str(Target.DEDICATED), "worker": name}
        known: Facts = {
            "task": _task(str(worker.task), worker.cluster, worker.size),
            "place": place,
            "worker": {
                "name": worker.set.name,
                "pod": name,
                "state": str(verdict.state),
                "reason": verdict.reason,
                "trouble": None if verdict.trouble is None else str(verdict.trouble),
            },
        }
        phase = Phase.RUNNING if worker.ran else Phase.WAITING
        return str(phase), f"it has a worker of its own, {worker.set.name}: {verdict.reason}", known

    def _of_promise(self, ordinal: int, entry: ledger.Entry) -> tuple[str, str, Facts]:
        pod = f"{self._settings.shared_pool_name}-{ordinal}"
        reason = f"it was promised a place on {pod} at {format_time(entry.dated)}"
        place = {"pool": str(Target.SHARED), "worker": pod}
        return str(Phase.WAITING), reason, {"task": _task(str(entry.task), entry.cluster, entry.size), "place": place}

    def _of_nobody(self, task: TaskId, size: int | None, found: _Found) -> Explanation:
        nobody = "nobody knows it" if found.leader is not None else "it has no worker of its own and no promise"
        facts: Facts = {"task": _task(str(task), None, size), "place": None}
        if size is None:
            return self._explained(task, UNKNOWN, nobody, facts, found)
        running = self._least_running(found)
        rules = Rules.of(self._settings)
        verdict = decide(size, running, rules)
        if running is None and verdict.target is not decide(size, rules.running + 1, rules).target:
            found.unknown.append("how many tasks the least busy local pod runs")
        facts["would"] = self._would(verdict, size)
        return self._explained(task, UNKNOWN, f"{nobody}; {_would_words(verdict)}", facts, found)

    def _would(self, verdict: Verdict, size: int) -> Facts:
        target = None if verdict.target is None else str(verdict.target)
        would: Facts = {"pool": target, "reason": verdict.reason}
        if verdict.target is Target.DEDICATED:
            tiers = tiers_of(self._settings.sts_configs)
            worker = Sizes(tiers, self._settings.worker_max_cores, self._settings.worker_min_storage_gb).of(size)
            would["size"] = {**worker.resources(), "workers": worker.workers, "storageGb": worker.storage_gb}
        return would

    def _least_running(self, found: _Found) -> int | None:
        """As the leader counts: tasks on local pods that run, or were promised."""
        if found.leader is None:
            return None
        local = [pod.name for pod in found.pods if pod.set_name == self._settings.template_sts_name and pod.ready]
        tasks = (
            each for each in found.leader["tasks"] if each["pool"] == Target.LOCAL and each["state"] != Phase.ENDED
        )
        count = Counter(each["worker"] for each in tasks)
        return min((count[name] for name in local), default=None)

    def _explained(self, task: TaskId, state: str, reason: str, facts: Facts, found: _Found) -> Explanation:
        rules = Rules.of(self._settings)
        facts["rules"] = {
            "maxSize": rules.max_size,
            "spawnDataSize": rules.spawn_size,
            "spawnRunningTasks": rules.running,
            "sharedPoolEnabled": rules.pool,
        }
        facts["unknown"] = found.unknown
        held = () if self._settings.run else (SWITCHED_OFF,)
        return Explanation(f"task {task}", state, reason, facts, held_back=held)


def _task(task: str, cluster: int | None, size: int | None) -> Facts:
    return {"id": task, "cluster": cluster, "dataSize": size}


def _place(entry: dict[str, Any]) -> Facts:
    return {"pool": entry["pool"], "worker": entry["worker"]}


def _would_words(verdict: Verdict) -> str:
    if verdict.target is None:
        return f"it would be refused: {verdict.reason}"
    return f"it would be placed {verdict.target}: {verdict.reason}"
