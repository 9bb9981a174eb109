"""What becomes of a dedicated worker: facts and clocks in, verdict with its reason out.

    someone waits for it            kept
    it says that a task runs        kept; with `stuck_for`, only while the task makes progress
    it says that none runs          removed `idle_for` after the last sign of use, and not before promises run out
    it does not say                 kept: unknown is not unused
    never ready, or its pod gone    removed when no client has asked for so long; kept if a task of it may still live

Instants and durations are monotonic seconds.
"""

from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Final, Self

from ebbtide.config.scaler import WorkerScaler
from reconciler.scaler.metrics import Cleanup, WorkerState
from reconciler.scaler.refusals import code_of

# Sums of seconds are not exact: a look that comes too early by less than this would be repeated at the same instant.
SHORTEST: Final = 0.001
# A worker that answers again within this is not worth a word.
_WORTH_TELLING: Final = 60.0


@dataclass(frozen=True, slots=True)
class Rules:
    """`stuck_for` 0 is never."""

    idle_for: float = 600.0
    start_timeout: float = 300.0
    stuck_for: float = 0.0

    @classmethod
    def of(cls, settings: WorkerScaler) -> Self:
        return cls(settings.expire_seconds, settings.start_timeout, settings.stuck_task_expire_seconds)


class Stage(Enum):
    """How far the pod is. LOST: it was ready, in this life, and is not any more."""

    ABSENT = "it has no pod"
    STARTING = "its pod is not ready yet"
    READY = "its pod is ready"
    LOST = "its pod is not ready any more"


class Trouble(StrEnum):
    """What an operator may have to do something about; the values are reasons of events."""

    STATUS_UNKNOWN = "StatusUnknown"
    NO_CAPACITY = "NoCapacity"
    ZONAL_VOLUME_BLOCKED = "ZonalVolumeBlocked"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_REFUSED = "PodRefused"


@dataclass(frozen=True, slots=True)
class Facts:
    """One worker.

    `known`: its present life has answered, lately and to the last question. Then `running` says whether it lists a task
    that is neither finished nor cancelled, `progress_at` when such tasks last moved, and `empty_since` from when on it
    has said that there is none. `failing_since` is since when questions fail, `ran` that a task was seen running there
    and its end was not. `used_at` is the last sign of use: the client's last request, its redirect, or the pod last
    seen ready. `unschedulable` is why the scheduler finds no node for its pod, `refused` why its pod cannot be made.
    """

    stage: Stage
    used_at: float
    promised_until: float = 0.0
    waited_for: bool = False
    ending: bool = False
    cancelled: bool = False
    ran: bool = False
    known: bool = False
    running: bool = False
    progress_at: float = 0.0
    empty_since: float | None = None
    failing_since: float | None = None
    unschedulable: str = ""
    refused: str = ""

    def meanwhile(self, *, waited_for: bool, ending: bool) -> Self:
        """The same worker, with what its clients and its set say."""
        return replace(self, waited_for=waited_for, ending=ending)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the worker is doing, and why; `remove` says that it is to go now, `trouble` what should be looked into.

    `look_again_in` seconds even if nothing happens, None if only events matter.
    """

    state: WorkerState
    reason: str
    remove: Cleanup | None = None
    trouble: Trouble | None = None
    look_again_in: float | None = None


def decide(facts: Facts, rules: Rules, now: float) -> Verdict:
    """The verdict on one worker."""
    if facts.ending:
        return Verdict(WorkerState.ENDING, "it is on its way out")
    if facts.cancelled:
        return Verdict(WorkerState.ENDING, "its task was cancelled", Cleanup.CANCELLED)
    if facts.known and facts.running:
        return _busy(facts, rules, now)
    if facts.known and facts.stage in (Stage.READY, Stage.LOST):
        return _empty(facts, rules, now)
    if facts.ran or facts.stage in (Stage.READY, Stage.LOST):
        return _unknown(facts, now)
    return _starting(facts, rules, now)


def _busy(facts: Facts, rules: Rules, now: float) -> Verdict:
    if not rules.stuck_for or facts.waited_for:
        return Verdict(WorkerState.BUSY, "it runs a task")
    left = max(facts.progress_at, facts.used_at) + rules.stuck_for - now
    if left > 0:
        return Verdict(WorkerState.BUSY, "it runs a task", look_again_in=max(left, SHORTEST))
    return Verdict(WorkerState.BUSY, f"its task has not moved for {rules.stuck_for:g} s", Cleanup.STUCK)


def _empty(facts: Facts, rules: Rules, now: float) -> Verdict:
    """The pod's own clock begins with the first answer that shows no running task."""
    since = now if facts.empty_since is None else facts.empty_since
    idle = max(since, facts.used_at) + rules.idle_for - now
    promised = facts.promised_until - now
    if facts.waited_for:
        return Verdict(WorkerState.READY, "a client waits for it")
    if promised > 0:
        return Verdict(WorkerState.READY, "a client was sent to it", look_again_in=max(promised, SHORTEST))
    if idle > 0:
        return Verdict(WorkerState.IDLE, "it runs no task", look_again_in=max(idle, SHORTEST))
    return Verdict(WorkerState.IDLE, f"it has run no task for {rules.idle_for:g} s", Cleanup.IDLE)


def _unknown(facts: Facts, now: float) -> Verdict:
    """A pod that has just become ready has simply not been asked yet."""
    if facts.stage is Stage.READY and not facts.ran and facts.failing_since is None:
        return Verdict(WorkerState.STARTING, "its pod is ready and has not answered yet")
    words = "its status cannot be read" if facts.stage is Stage.READY else f"{facts.stage.value}, and a task may live"
    words = f"{words}: {facts.refused}" if facts.refused else words
    silent = now - facts.failing_since if facts.failing_since is not None else _WORTH_TELLING
    if silent < _WORTH_TELLING:
        return Verdict(WorkerState.UNKNOWN, words, look_again_in=max(_WORTH_TELLING - silent, SHORTEST))
    return Verdict(WorkerState.UNKNOWN, words, trouble=_trouble(facts) or Trouble.STATUS_UNKNOWN)


def _starting(facts: Facts, rules: Rules, now: float) -> Verdict:
    words, trouble = facts.unschedulable or facts.stage.value, _trouble(facts)
    words = f"its pod cannot be made: {facts.refused}" if facts.refused else words
    left = max(facts.used_at + rules.start_timeout + rules.idle_for, facts.promised_until) - now
    if facts.waited_for:
        return Verdict(WorkerState.STARTING, words, trouble=trouble)
    if left > 0:
        return Verdict(WorkerState.STARTING, words, trouble=trouble, look_again_in=max(left, SHORTEST))
    why = Cleanup.POD_GONE if facts.stage is Stage.ABSENT else Cleanup.NEVER_READY
    return Verdict(WorkerState.STARTING, f"{words.rstrip('.')}, and no client has asked for it", why)


def refusal_of(words: str) -> Trouble:
    """What it is that these words of the API server are about."""
    return Trouble(code_of(words))


def _trouble(facts: Facts) -> Trouble | None:
    """Why there is no pod, or the scheduler finds no node for it, in the words of its volume plugins and all others."""
    if facts.refused:
        return refusal_of(facts.refused)
    if not facts.unschedulable:
        return None
    bound = "volume node affinity" in facts.unschedulable or "PersistentVolume's node affinity" in facts.unschedulable
    return Trouble.ZONAL_VOLUME_BLOCKED if bound else Trouble.NO_CAPACITY
