"""The last answer of every worker, by the UID of its pod.

An answer speaks for one life of one pod. One that comes after the pod was replaced, or its container began anew, is
not taken: "no tasks" of the old life would make the new one look idle. Nor is one that overtakes a later question.

Instants are monotonic seconds.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from ebbtide.clock import Clock
from ebbtide.errors import EbbtideError
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.stores import Stores
from reconciler.scaler.task import TaskState


class StatusUnknown(EbbtideError):  # noqa: N818 - a state of knowledge rather than a fault
    """A worker has not said, or not for the pod that it was asked as, what its tasks are."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What one worker lists: `clusters[i]` is the cluster of `states[i]`, `asked` are all that it was asked for."""

    states: tuple[TaskState, ...] = ()
    clusters: tuple[int, ...] = ()
    asked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """`at` is when the question was sent, `started` the life of the container (`WorkerPod.started`) that answered."""

    at: float
    started: str
    states: tuple[TaskState, ...]
    clusters: tuple[int, ...] = ()
    asked: frozenset[int] = frozenset()


# Longer than a pod that is there can be missing from what we know of pods.
KEPT: Final = 120.0

Ask = Callable[[WorkerPod, Collection[int]], Awaitable[Listed]]


@dataclass(slots=True)
class _Page:
    """What is known of one pod. `answer` is kept while questions fail: it is the last known value."""

    answer: Answer | None = None
    failing_since: float | None = None
    problem: str = ""
    gone_at: float | None = None


class Book:
    """Last answers. `ask` puts one question to one worker and raises StatusUnknown."""

    def __init__(self, stores: Stores, clock: Clock, ask: Ask) -> None:
        self._stores = stores
        self._clock = clock
        self._ask = ask
        self._pages: dict[str, _Page] = {}
        self._listeners: list[Callable[[str], None]] = []
        stores.pods.subscribe(self._pod_changed)

    def begin(self) -> None:
        """A new term: what was answered to this process before says nothing, others may have led meanwhile."""
        self._pages.clear()

    def last(self, uid: str) -> Answer | None:
        """The newest answer of that pod, of whichever life of its container; None before the first."""
        page = self._pages.get(uid)
        return None if page is None else page.answer

    def failing_since(self, uid: str) -> float | None:
        """When the first of the questions was sent that have failed in a row up to now; None when the last did not."""
        page = self._pages.get(uid)
        return None if page is None else page.failing_since

    def problem(self, uid: str) -> str:
        """Why the last question failed; "" when it did not."""
        page = self._pages.get(uid)
        return "" if page is None else page.problem

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with the key of a pod after every answer and every failure."""
        self._listeners.append(listener)

    async def ask_now(self, pod: WorkerPod, clusters: Collection[int]) -> Answer:
        """Asks that pod for the tasks of these clusters. Raises StatusUnknown."""
        at = self._clock.monotonic()
        try:
            listed = await self._ask(pod, clusters)
            self._demand_same(pod)
        except StatusUnknown as unknown:
            self._failed(pod, at, str(unknown))
            raise
        answer = Answer(at, pod.started, listed.states, listed.clusters, listed.asked)
        self._answered(pod, answer)
        return answer

    def _demand_same(self, pod: WorkerPod) -> None:
        known = self._stores.pods.get(pod.key)
        if known is None or known.uid != pod.uid:
            raise StatusUnknown(f"pod {pod.name} was replaced while it was asked")
        if known.started != pod.started:
            raise StatusUnknown(f"pod {pod.name} began anew while it was asked")

    def _answered(self, pod: WorkerPod, answer: Answer) -> None:
        page = self._pages.setdefault(pod.uid, _Page())
        if page.answer is not None and page.answer.at > answer.at:
            return
        page.answer, page.failing_since, page.problem = answer, None, ""
        self._tell(pod)

    def _failed(self, pod: WorkerPod, at: float, problem: str) -> None:
        known = self._stores.pods.get(pod.key)
        if known is None or known.uid != pod.uid:
            return
        page = self._pages.setdefault(pod.uid, _Page())
        if page.answer is not None and page.answer.at > at:
            return
        page.failing_since = at if page.failing_since is None else page.failing_since
        page.problem = problem
        self._tell(pod)

    def _tell(self, pod: WorkerPod) -> None:
        for listener in self._listeners:
            listener(pod.key)

    def _pod_changed(self, old: WorkerPod | None, new: WorkerPod | None) -> None:
        """The last answer of a pod outlives it by a while: lists of pods can be wrong."""
        now = self._clock.monotonic()
        if new is not None and new.uid in self._pages:
            self._pages[new.uid].gone_at = None
        if old is not None and (new is None or new.uid != old.uid):
            if old.uid in self._pages:
                self._pages[old.uid].gone_at = now
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        if self._stores.unknown:
            return
        over = [uid for uid, page in self._pages.items() if page.gone_at is not None and now - page.gone_at >= KEPT]
        for uid in over:
            del self._pages[uid]
