"""How far the pool may shrink now, and what stands in the way. Pure.

Only the tail can go, so the walk is from the highest ordinal down to the first pod that has to stay. Everything that is
not known counts against shrinking.
"""

from dataclasses import dataclass
from enum import StrEnum

from ebbtide.counting import count
from reconciler.scaler.shared.decide import desired
from reconciler.scaler.shared.facts import PodState, Pool, PoolPod, Rules


class Keep(StrEnum):
    """Why a pod stays."""

    NEEDED = "needed"
    WAITED_FOR = "waited-for"
    PAUSED = "paused"
    RUNNING = "running"
    RESERVED = "reserved"
    ENDED = "ended"
    NEVER_RAN = "never-ran"
    NOT_READY = "not-ready"
    UNKNOWN = "unknown"
    NOT_IDLE = "not-idle"


@dataclass(frozen=True, slots=True)
class Kept:
    """The pod at which the walk stops; `after` seconds it may go if nothing happens, None when that cannot be told."""

    ordinal: int
    keep: Keep
    reason: str
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Shrink:
    """The number of pods that may be left, and why not fewer; `kept` is None when there is nothing left to remove."""

    replicas: int
    kept: Kept | None

    def removes(self, pool: Pool) -> range:
        """The ordinals that go."""
        return range(self.replicas, pool.replicas)


def shrink(pool: Pool, rules: Rules) -> Shrink:
    """The smallest pool that loses no pod with anything on it."""
    last = pool.replicas - 1
    if pool.paused and last >= 0:
        return Shrink(pool.replicas, Kept(last, Keep.PAUSED, "scaling is paused"))
    if pool.waiting:
        return Shrink(
            pool.replicas,
            Kept(last, Keep.WAITED_FOR, f"{count(len(pool.waiting), 'task waits', 'tasks wait')} for a place"),
        )
    floor = max(desired(pool.total, rules), rules.least)
    pods = {pod.ordinal: pod for pod in pool.pods}
    for ordinal in range(last, -1, -1):
        kept = _needed(ordinal, floor) or _stays(pods.get(ordinal) or PoolPod(ordinal, PodState.MISSING), rules)
        if kept is not None:
            return Shrink(ordinal + 1, kept)
    return Shrink(0, None)


def _needed(ordinal: int, floor: int) -> Kept | None:
    return Kept(ordinal, Keep.NEEDED, f"{count(floor, 'pod is', 'pods are')} wanted") if ordinal < floor else None


def _stays(pod: PoolPod, rules: Rules) -> Kept | None:
    keep, reason, after = _why(pod, rules)
    return None if keep is None else Kept(pod.ordinal, keep, reason, after)


def _why(pod: PoolPod, rules: Rules) -> tuple[Keep | None, str, float | None]:
    if pod.running:
        return Keep.RUNNING, f"{count(pod.running, 'task runs', 'tasks run')} there", None
    if pod.reserved:
        return Keep.RESERVED, f"{count(pod.reserved, 'task has', 'tasks have')} been sent there and not been seen", None
    if pod.never_ran:
        return _stuck(pod, rules)
    if pod.state in (PodState.NOT_READY, PodState.ENDING, PodState.LOST):
        return Keep.NOT_READY, "it is not ready, so what it has is not known", None
    if not pod.good:
        return Keep.UNKNOWN, "its tasks could not be read", None
    if pod.ended:
        return Keep.ENDED, f"it still lists {count(pod.ended, 'ended task')}", None
    return _idle(pod, rules)


def _stuck(pod: PoolPod, rules: Rules) -> tuple[Keep | None, str, float | None]:
    if not rules.stuck_for:
        return Keep.NEVER_RAN, "it never ran, and only pods that have run are removed", None
    if pod.lasting < rules.stuck_for:
        return Keep.NEVER_RAN, "it has not run yet", rules.stuck_for - pod.lasting
    return None, "", None


def _idle(pod: PoolPod, rules: Rules) -> tuple[Keep | None, str, float | None]:
    if pod.idle is None:
        return Keep.NOT_IDLE, "it has not been seen empty yet", None
    if pod.idle < rules.idle_for:
        return Keep.NOT_IDLE, f"it has been idle for {pod.idle:.0f} s", rules.idle_for - pod.idle
    return None, "", None
