"""Stores, last answers and memory → the pool's facts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ebbtide import vocabulary
from ebbtide.exclusion.volumes import BoundVolumes
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.store import Store
from ebbtide.model import NodeFacts
from reconciler.scaler.pods import WorkerPod, WorkerSet
from reconciler.scaler.shared.facts import PodState, Pool, PoolPod
from reconciler.scaler.shared.memory import Memory
from reconciler.scaler.status.book import Answer, Book
from reconciler.scaler.stores import Stores

# One question without an answer is nothing to tell of; this many seconds of them are.
SILENT_FOR: Final = 15.0


@dataclass(frozen=True, slots=True)
class Watched:
    """What is looked at. `group` is the node group of the pool's settings, "" for none."""

    stores: Stores
    book: Book
    nodes: Store[NodeFacts]
    zones: BlockedZones
    volumes: BoundVolumes
    pool: str
    group: str


class Snapshot:
    """Facts for the decisions. Answers older than `oldest` seconds, or from before `begin`, are none.

    A pod that has been silent for `patience` seconds is not waited for.
    """

    def __init__(self, watched: Watched, memory: Memory, oldest: float, patience: float) -> None:
        self._watched = watched
        self._memory = memory
        self._oldest = oldest
        self._patience = patience
        self._began = float("inf")

    def begin(self, now: float) -> None:
        """A new term."""
        self._began = now

    # --- objects -------------------------------------------------------------------------------------------------

    @property
    def unknown(self) -> str:
        """What has not been listed yet, "" when all is known."""
        return self._watched.stores.unknown

    @property
    def set(self) -> WorkerSet | None:
        """The set of the pool's name, whosever it is."""
        return self._watched.stores.worker_set(self._watched.pool)

    @property
    def own_set(self) -> WorkerSet | None:
        """The pool's set, unless it is on its way out."""
        found = self.set
        return found if found is not None and is_ours(found) and not found.deleting else None

    def pods(self) -> Mapping[int, WorkerPod]:
        """By ordinal, also those that an earlier set of that name has left."""
        return {pod.ordinal: pod for pod in self._watched.stores.pods_of(self._watched.pool) if pod.ordinal >= 0}

    def pod(self, ordinal: int) -> WorkerPod | None:
        found = self._watched.stores.pod(f"{self._watched.pool}-{ordinal}")
        return found if found is not None and found.set_name == self._watched.pool else None

    # --- answers -------------------------------------------------------------------------------------------------

    def answer(self, pod: WorkerPod, now: float) -> Answer | None:
        """What the pod in its present life has said of its tasks a moment ago, None when its last question failed."""
        answer = self._watched.book.last(pod.uid)
        if answer is None or answer.started != pod.started or self._watched.book.failing_since(pod.uid) is not None:
            return None
        return answer if answer.at >= self._began and now - answer.at <= self._oldest else None

    def unread(self, clusters: frozenset[int], now: float) -> Iterable[str]:
        """Pods with a running container whose tasks of these clusters have not been read once in this term.

        A container on a node that has gone does not run, whatever its pod says; and one that has been silent for as
        long as a pod may take to start is not waited for: what is promised there is known, and it keeps its pod.
        """
        for ordinal, pod in self.pods().items():
            seat, failing = self._memory.seat(ordinal), self._watched.book.failing_since(pod.uid)
            read = seat.life == (pod.uid, pod.started) and clusters <= seat.asked
            given_up = failing is not None and now - failing >= self._patience
            if pod.started and not (read or given_up or self._lost(pod)):
                yield pod.name

    # --- facts ---------------------------------------------------------------------------------------------------

    def pool(self, waiting: tuple[int, ...], closing: int | None, now: float) -> Pool:
        """The pool as it is now."""
        own, pods = self.own_set, self.pods()
        replicas = 0 if own is None else own.replicas
        ordinals = {*range(replicas), *(n for n in self._memory.loaded() if n >= replicas)}
        return Pool(
            replicas=replicas,
            pods=tuple(self._pod(ordinal, pods.get(ordinal), own, now) for ordinal in sorted(ordinals)),
            waiting=waiting,
            closing=closing,
            paused=own is not None and is_paused(own),
        )

    def unschedulable(self) -> Iterable[tuple[int, str]]:
        """Ordinals that the scheduler finds no node for, with its words."""
        return ((n, pod.unschedulable) for n, pod in sorted(self.pods().items()) if pod.unschedulable)

    def failing(self, now: float) -> Iterable[tuple[int, str]]:
        """Ordinals that are Ready and have not answered for some time, with why."""
        book = self._watched.book
        for ordinal, pod in sorted(self.pods().items()):
            since = book.failing_since(pod.uid)
            if pod.ready and since is not None and now - since >= SILENT_FOR:
                yield ordinal, book.problem(pod.uid)

    def tied(self, pod: WorkerPod) -> bool:
        """Whether a volume of the pod can only be reached from blocked zones."""
        blocked = self._blocked_for(pod)
        zones = self._watched.volumes.zones(pod.namespace, pod.claims)
        return bool(blocked) and any(each <= blocked for each in zones)

    def _pod(self, ordinal: int, pod: WorkerPod | None, own: WorkerSet | None, now: float) -> PoolPod:
        seat, memory = self._memory.seat(ordinal), self._memory
        state = self._state(ordinal, pod, own, now)
        return PoolPod(
            ordinal=ordinal,
            state=state,
            lasting=memory.lasting(ordinal, state, now),
            running=seat.running,
            reserved=memory.reserved(ordinal),
            ended=memory.ended(ordinal, now),
            disk=memory.disk(ordinal),
            good=pod is not None and pod.ready and self.answer(pod, now) is not None,
            idle=memory.idle(ordinal, now),
        )

    def _state(self, ordinal: int, pod: WorkerPod | None, own: WorkerSet | None, now: float) -> PodState:
        if pod is None:
            return PodState.MISSING
        if pod.deleting or own is None or pod.set_uid != own.uid:
            return PodState.ENDING
        if self._lost(pod):
            return PodState.LOST
        if not pod.node and self.tied(pod):
            return PodState.BLOCKED
        served = self._memory.seat(ordinal).served == pod.uid
        if not pod.ready:
            return PodState.NOT_READY if served else PodState.STARTING
        if (reason := self._closed(pod)) is not None:
            return reason
        if self.answer(pod, now) is not None:
            return PodState.USABLE
        return (
            PodState.UNKNOWN if served or self._watched.book.failing_since(pod.uid) is not None else PodState.STARTING
        )

    def _lost(self, pod: WorkerPod) -> bool:
        node = self._watched.nodes.get(pod.node) if pod.node else None
        return bool(pod.node) and (node is None or node.deleting)

    def _closed(self, pod: WorkerPod) -> PodState | None:
        """Why nothing new may go to the node of a pod that is Ready."""
        node = self._watched.nodes.get(pod.node)
        if node is None or node.unschedulable:
            return PodState.CORDONED
        if node.cell is not None and node.cell.zone in self._blocked(node.cell.group):
            return PodState.BLOCKED
        return None

    def _blocked_for(self, pod: WorkerPod) -> frozenset[str]:
        """Zones that the pod must not be in: of the group of its node, else of the settings, else of every group."""
        node = self._watched.nodes.get(pod.node)
        group = node.cell.group if node is not None and node.cell is not None else self._watched.group
        if group:
            return self._blocked(group)
        groups = self._watched.zones.groups.values()
        live = frozenset[str]().union(*(zones.live for zones in groups))
        return live - frozenset[str]().union(*(zones.live - zones.blocked for zones in groups))

    def _blocked(self, group: str) -> frozenset[str]:
        zones = self._watched.zones.groups.get(group)
        return frozenset() if zones is None else zones.blocked


def is_ours(found: WorkerSet) -> bool:
    """Whether the set is a pool of ours and not somebody else's of that name."""
    return found.pool == vocabulary.POOL_SHARED


def is_paused(found: WorkerSet) -> bool:
    return found.annotations.get(vocabulary.PAUSED_ANNOTATION, "false") != "false"
