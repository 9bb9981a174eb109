"""What has happened, in order: the only source of the time line, of the account and of the judgement on a scenario."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto


class What(Enum):
    """Kinds of moments. The comment says what `who` is, and what `words` are."""

    SIGNALLED = auto()  # node
    SIGNAL_GONE = auto()  # node
    TAINTED = auto()  # node; the prevent taint was set
    UNTAINTED = auto()  # node
    NODE_ADDED = auto()  # node
    NODE_READY = auto()  # node
    NODE_GONE = auto()  # node; words: the pods that it took with it, separated by spaces
    POD_ADDED = auto()  # pod
    POD_WAITS = auto()  # pod; words: why the scheduler finds no node for it
    POD_PLACED = auto()  # pod
    POD_SERVES = auto()  # pod; Ready and not on its way out
    POD_AWAY = auto()  # pod; does not serve any longer
    EVICTED = auto()  # pod
    REFUSED = auto()  # pod; words: what the API server answered to the eviction
    REFUSED_AGAIN = auto()  # pod; the same
    GREW = auto()  # group of the autoscaler ("" when it grew none); words: how much, and why no other
    SHRANK = auto()  # node that the autoscaler removes
    ZONE = auto()  # state of a cell; words: why
    EVENT = auto()  # reason of an event that the reconciler wrote; words: its note
    WARNING = auto()  # the same, for an event of type Warning
    TROUBLE = auto()  # a warning in the reconciler's log; words: the line
    AWS = auto()  # the script of the scenario; words: what it lets AWS do
    SCALED = auto()  # the script of the scenario; words: what it lets somebody do to a workload
    # Of loads. A table is told by its name.
    TABLE_BEGUN = auto()  # table; words: its size; its client begins to ask for a place
    TABLE_BEGUN_AGAIN = auto()  # table; the same, of a client that was started anew
    SENT_TO = auto()  # table; node: the pod that its client was sent to; words: what kind of a worker that is
    TOLD_TO_WAIT = auto()  # table; words: what the front said with its 503
    TOLD_TO_WAIT_AGAIN = auto()  # table; the same
    MISDIRECTED = auto()  # table; words: the request that was redirected although its client cannot follow
    TABLE_LOADED = auto()  # table
    TABLE_FAILED = auto()  # table; words: what ended it
    WORKER_MADE = auto()  # set of a worker of its own; words: what for
    WORKER_GONE = auto()  # set of a worker of its own
    WORKER_REMOVED = auto()  # the same, in the reconciler's log; words: why
    CUT_OFF = auto()  # pod whose worker ended; words: the tables that it was loading
    POOL_SIZED = auto()  # set of the pool; words: how many pods it asks for now
    POOL_TOLD = auto()  # set of the pool; words: what the reconciler has done to it


@dataclass(frozen=True, slots=True)
class Moment:
    """`at` is seconds since the curtain rose. `slot` is the place that a pod fills in its workload.

    The pod of a StatefulSet has a slot of its own, the pods of a Deployment share one.
    """

    at: float
    what: What
    who: str
    zone: str = ""
    node: str = ""
    slot: str = ""
    words: str = ""


class Chronicle:
    """All moments so far, in order; `listener` hears of each as it is noted."""

    def __init__(self, listener: Callable[[Moment], None] = lambda _: None) -> None:
        self._moments: list[Moment] = []
        self._listener = listener

    def note(self, moment: Moment) -> None:
        self._moments.append(moment)
        self._listener(moment)

    def __iter__(self) -> Iterator[Moment]:
        return iter(self._moments)

    def of(self, *kinds: What) -> tuple[Moment, ...]:
        """The moments of these kinds."""
        return tuple(moment for moment in self._moments if moment.what in kinds)

    def since(self, number: int) -> tuple[Moment, ...]:
        """The moments after the first `number`."""
        return tuple(self._moments[number:])


@dataclass(frozen=True, slots=True)
class Absence:
    """A pod that did not serve for a while; `until` is None while nothing has taken its place."""

    slot: str
    since: float
    until: float | None

    def lasted(self, now: float) -> float:
        return (now if self.until is None else self.until) - self.since


def absences(chronicle: Chronicle) -> tuple[Absence, ...]:
    """Every time that a pod stopped serving, until one took its place. Of a shared slot, the first in replaces the
    first out."""
    found: list[Absence] = []
    open_by_slot: dict[str, list[int]] = {}
    for moment in chronicle.of(What.POD_AWAY, What.POD_SERVES):
        still_open = open_by_slot.setdefault(moment.slot, [])
        if moment.what is What.POD_AWAY:
            still_open.append(len(found))
            found.append(Absence(moment.slot, moment.at, None))
        elif still_open:
            number = still_open.pop(0)
            found[number] = Absence(moment.slot, found[number].since, moment.at)
    return tuple(found)


def most_away(chronicle: Chronicle, slot_prefix: str) -> int:
    """How many pods of a workload were away at the same time, at the worst moment."""
    away = worst = 0
    for moment in chronicle.of(What.POD_AWAY, What.POD_SERVES):
        if moment.slot.startswith(slot_prefix):
            away += 1 if moment.what is What.POD_AWAY else -1
            worst = max(worst, away)
    return worst
