"""What is decided about: rules, pods by ordinal, and the tasks that wait. Frozen, without clock or I/O."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from ebbtide.config.scaler import WorkerScaler

# A task's data is on the volume up to three times: as written, sorted, and as files to be ingested.
DISK_PER_DATA = 3
# A pod that is not there after this many seconds is not just late.
OVERDUE: Final = 30.0


class PodState(StrEnum):
    """What an ordinal of the pool is good for."""

    USABLE = "usable"
    # Expected to take tasks by itself, however long that lasts: created and never ran, or not created yet.
    STARTING = "starting"
    MISSING = "missing"
    # Took tasks before and may do so again; for how long it has not is `PoolPod.lasting`.
    NOT_READY = "not-ready"
    UNKNOWN = "unknown"
    ENDING = "ending"
    # Takes none until somebody else does something.
    CORDONED = "cordoned"
    BLOCKED = "zone-blocked"
    LOST = "node-lost"


_NEVER_RAN = frozenset({PodState.STARTING, PodState.MISSING})
_PASSING = frozenset({PodState.NOT_READY, PodState.UNKNOWN, PodState.ENDING})


@dataclass(frozen=True, slots=True)
class Rules:
    """The pool's settings. Times in seconds, `disk` in bytes per pod; `least` is 0 for a pool that is switched off."""

    enabled: bool = True
    least: int = 0
    most: int = 64
    per_pod: int = 16
    soft_cap: int = 24
    hard_cap: bool = False
    idle_for: float = 600.0
    stuck_for: float = 0.0
    start_timeout: float = 300.0
    disk: int = 64 << 30

    @classmethod
    def of(cls, settings: WorkerScaler, disk: int) -> Self:
        """`disk` is what the volumes of one pod hold together."""
        return cls(
            enabled=settings.shared_pool_enabled,
            least=settings.shared_min_replicas if settings.shared_pool_enabled else 0,
            most=settings.shared_max_replicas,
            per_pod=settings.shared_scale_up_tasks_per_pod,
            soft_cap=settings.shared_max_tasks_per_pod,
            hard_cap=settings.shared_hard_cap,
            idle_for=settings.shared_idle_pod_expire_sec,
            stuck_for=settings.shared_stuck_pod_expire_sec,
            start_timeout=settings.start_timeout,
            disk=disk,
        )


@dataclass(frozen=True, slots=True)
class PoolPod:
    """One ordinal.

    `lasting` is for how long it has been in `state`. `running` are tasks it last reported, `reserved` promises that it
    has not been seen to have, `ended` tasks it lists although they are over, `disk` the bytes set aside for its tasks.
    `good` says that it is Running and Ready and has answered well just now, whether it may take tasks or not. `idle`
    is for how long it has been seen empty, None when it has not.
    """

    ordinal: int
    state: PodState = PodState.USABLE
    lasting: float = 0.0
    running: int = 0
    reserved: int = 0
    ended: int = 0
    disk: int = 0
    good: bool = True
    idle: float | None = None

    @property
    def load(self) -> int:
        return self.running + self.reserved

    @property
    def usable(self) -> bool:
        return self.state is PodState.USABLE

    @property
    def never_ran(self) -> bool:
        return self.state in _NEVER_RAN

    def starting(self, rules: Rules) -> bool:
        """Whether it may be waited for: it never ran, or it is away for no longer than a pod takes to start."""
        return self.never_ran or (self.state in _PASSING and self.lasting < rules.start_timeout)

    def hopeful(self, rules: Rules) -> bool:
        """Whether it is likely to take tasks before those who wait give up."""
        return self.starting(rules) and self.lasting < rules.start_timeout


@dataclass(frozen=True, slots=True)
class Pool:
    """The pool as it is now.

    `pods` has every ordinal below `replicas`, and beyond those that still have load (somebody else has scaled them
    away). `refused` is why those that are missing cannot be made, in the words of the API server. `waiting` are the
    data sizes, in bytes, of tasks without a place, in the order of their arrival. Ordinals from `closing` on are being
    removed. `paused` is the operator's brake.
    """

    replicas: int
    pods: tuple[PoolPod, ...] = ()
    waiting: tuple[int, ...] = ()
    closing: int | None = None
    paused: bool = False
    refused: str = ""

    @property
    def total(self) -> int:
        """All load, that of pods out of reach as last known, and all who wait."""
        return sum(pod.load for pod in self.pods) + len(self.waiting)

    @property
    def usable(self) -> tuple[PoolPod, ...]:
        """The pods that may be given tasks, by ordinal."""
        limit = self.replicas if self.closing is None else min(self.replicas, self.closing)
        return tuple(pod for pod in self.pods if pod.usable and pod.ordinal < limit)

    def lacking(self) -> dict[int, float]:
        """Ordinals whose pod is not just late, with the seconds that it has been missing."""
        late = (pod for pod in self.within() if pod.state is PodState.MISSING and pod.lasting >= OVERDUE)
        return {pod.ordinal: pod.lasting for pod in late}

    def hopeful(self, rules: Rules) -> bool:
        """Whether a pod of it is likely to take tasks before those who wait give up."""
        refused = self.lacking() if self.refused else {}
        return any(pod.hopeful(rules) for pod in self.within() if pod.ordinal not in refused)

    def within(self) -> Iterable[PoolPod]:
        """The ordinals that the set has."""
        return (pod for pod in self.pods if pod.ordinal < self.replicas)
