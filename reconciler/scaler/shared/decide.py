"""Which pod a task gets, and how large the pool has to be. Pure.

A task goes to the lowest ordinal with fewer than `per_pod` tasks, so that the tail drains; else to the least loaded one
below `soft_cap`. Growth is one formula, for arrivals and for the loop.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ebbtide.counting import count
from reconciler.scaler.shared.facts import DISK_PER_DATA, Pool, PoolPod, Rules


class Lack(StrEnum):
    """Why a task has no place."""

    WAIT = "wait"  # for a pod, or a slot
    REFUSE = "refuse"  # nothing will change by itself


@dataclass(frozen=True, slots=True)
class Given:
    """A pod for a task. `beyond` tells that it is above the soft cap of a pool that cannot grow."""

    ordinal: int
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How large the pool has to be: `desired` by its load, `target` by everything; `why` explains the target."""

    desired: int
    target: int
    why: str


@dataclass(slots=True)
class _Room:
    """What a usable pod still takes, while tasks are given out."""

    ordinal: int
    load: int
    disk: int

    def fits(self, size: int, rules: Rules) -> bool:
        """A task that is larger than any volume may have an empty one."""
        return self.disk == 0 or self.disk + DISK_PER_DATA * size <= rules.disk

    def take(self, size: int) -> None:
        self.load += 1
        self.disk += DISK_PER_DATA * size


@dataclass(frozen=True, slots=True)
class Allotment:
    """One answer for each waiting task, in their order; `pool` is the pool as it is then, with who still waits."""

    answers: tuple[Given | Lack, ...]
    pool: Pool = field(repr=False)


def desired(total: int, rules: Rules) -> int:
    """Pods for so many tasks, within the bounds."""
    return max(rules.least, min(rules.most, -(-total // rules.per_pod)))


def allot(pool: Pool, rules: Rules) -> Allotment:
    """Gives the waiting tasks their pods, first come, first served.

    One that finds no pod with enough disk does not keep later, smaller ones waiting: a pod is on its way for it.
    """
    rooms = [_Room(pod.ordinal, pod.load, pod.disk) for pod in pool.usable]
    grown_out = _grown_out(pool, rules)
    answers = tuple(_answer(rooms, size, pool, rules, grown_out) for size in pool.waiting)
    left = tuple(size for size, answer in zip(pool.waiting, answers, strict=True) if answer is Lack.WAIT)
    given: dict[int, list[int]] = {}
    for size, answer in zip(pool.waiting, answers, strict=True):
        if isinstance(answer, Given):
            given.setdefault(answer.ordinal, []).append(size)
    pods = tuple(_promised(pod, given[pod.ordinal]) if pod.ordinal in given else pod for pod in pool.pods)
    return Allotment(answers, replace(pool, pods=pods, waiting=left))


def size(pool: Pool, rules: Rules) -> PoolSize:
    """How large the pool has to be; never smaller than it is."""
    left = allot(pool, rules).pool
    want = desired(pool.total, rules)
    if pool.paused:
        return PoolSize(want, pool.replicas, "paused")
    reasons = [(pool.replicas, "as it is"), (_held(pool), "tasks on ordinals that somebody has scaled away")]
    if rules.enabled:
        reasons += [(rules.least, "the minimum"), (want, _load(pool, rules))]
        if left.waiting:
            reasons += _for_those_left(left, rules)
    target, why = max(reasons, key=lambda reason: reason[0])
    most = max(rules.most, pool.replicas)
    return PoolSize(want, min(target, most), why if target <= most else f"{why}, at most {rules.most}")


def _for_those_left(pool: Pool, rules: Rules) -> list[tuple[int, str]]:
    """What tasks that no usable pod has room for ask for."""
    reasons = [(len(pool.usable) + 1, "all usable pods are full")]
    if not any(pod.starting(rules) for pod in pool.within()):
        reasons.append((pool.replicas + 1, "no usable pod has room and none is starting"))
    return reasons


def _load(pool: Pool, rules: Rules) -> str:
    return f"{count(pool.total, 'task')} at {rules.per_pod} a pod"


def _held(pool: Pool) -> int:
    """So many pods that every ordinal with load is one of them."""
    return max((pod.ordinal + 1 for pod in pool.pods if pod.load), default=0)


def _grown_out(pool: Pool, rules: Rules) -> bool:
    """Whether waiting is of no use: the pool is as large as it may be, and nothing of it is about to start."""
    return pool.replicas >= rules.most and not pool.hopeful(rules)


def _answer(rooms: list[_Room], size: int, pool: Pool, rules: Rules, grown_out: bool) -> Given | Lack:
    room = _choose([room for room in rooms if room.fits(size, rules)], rules)
    if room is None and pool.paused:
        room = _choose(rooms, rules)
        if room is None and not pool.hopeful(rules):
            return Lack.REFUSE
    elif room is None and grown_out:
        room = _overfill(rooms, rules)
        if room is None and (rooms or rules.hard_cap):
            return Lack.REFUSE
    if room is None and not rooms and pool.refused and pool.lacking() and not pool.hopeful(rules):
        return Lack.REFUSE
    if room is None:
        return Lack.WAIT
    beyond = room.load >= rules.soft_cap
    room.take(size)
    return Given(room.ordinal, beyond)


def _choose(rooms: Iterable[_Room], rules: Rules) -> _Room | None:
    """The lowest ordinal below `per_pod`, else the least loaded below the soft cap."""
    below = [room for room in rooms if room.load < rules.soft_cap]
    early = (room for room in below if room.load < rules.per_pod)
    return next(early, None) or min(below, key=lambda room: room.load, default=None)


def _overfill(rooms: list[_Room], rules: Rules) -> _Room | None:
    """Where to put a task that fits nowhere: disk gives way before the soft cap, and that unless it is a hard one."""
    below = [room for room in rooms if room.load < rules.soft_cap]
    if below:
        return min(below, key=lambda room: room.disk)
    return None if rules.hard_cap else min(rooms, key=lambda room: room.load, default=None)


def _promised(pod: PoolPod, sizes: list[int]) -> PoolPod:
    disk = pod.disk + DISK_PER_DATA * sum(sizes)
    return replace(pod, reserved=pod.reserved + len(sizes), disk=disk, idle=None)
