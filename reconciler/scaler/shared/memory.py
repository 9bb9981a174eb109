"""Which task is on which pod, and since when a pod is empty: from the ledger, from workers' answers, from own promises.

A task is pinned to its ordinal for its life. Until its worker lists it, the pin is a promise: it counts as load, and
ends after `reservation` seconds. A pod that began anew may have lost its tasks; they count as promises again, since
their clients know no other address. What a pod out of reach was last known to run stays until it is heard of again.

Instants are monotonic seconds; all of them are counted anew in every term, which only ever keeps a pod longer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

from reconciler.scaler.contract import Arrival
from reconciler.scaler.shared.facts import DISK_PER_DATA, PodState
from reconciler.scaler.shared.ledger import Entry
from reconciler.scaler.status.book import Answer
from reconciler.scaler.task import TaskId, TaskState

# One life of a pod's container: the pod's UID, and what tells its containers apart.
Life = tuple[str, str]


@dataclass(slots=True)
class Pin:
    """A task's place. `promised` is when a client was last sent there; `seen`, whether it was listed since.

    `stored` marks those that are ours to keep in the ledger: promised, or read from there. `dated` is the wall clock
    of the first promise, for whoever reads the ledger.
    """

    task: TaskId
    cluster: int
    size: int
    ordinal: int
    promised: float
    dated: int = 0
    seen: bool = False
    ended: bool = False
    stored: bool = True

    @property
    def entry(self) -> Entry:
        return Entry(self.task, self.cluster, self.size, self.dated)


@dataclass(slots=True)
class Seat:
    """What is known of an ordinal. `listed` is the last good answer of the life that it is from."""

    life: Life | None = None
    asked: frozenset[int] = frozenset()
    listed: Mapping[TaskId, TaskState] = field(default_factory=dict)
    ended_since: dict[TaskId, float] = field(default_factory=dict)
    idle_since: float | None = None
    state: PodState | None = None
    state_since: float = 0.0
    served: str = ""
    pins: dict[TaskId, Pin] = field(default_factory=dict)

    @property
    def running(self) -> int:
        return sum(state.running for state in self.listed.values())

    def reserved(self) -> Iterable[Pin]:
        """Promises that the pod has not been seen to have."""
        return (pin for task, pin in self.pins.items() if task not in self.listed)

    def ended(self, now: float, grace: float) -> int:
        """Ended tasks that are still listed, with a `grace` only those not older than it."""
        return sum(grace == 0 or now - since < grace for since in self.ended_since.values())


class Memory:
    """`reservation` and `grace` in seconds. `changed` are the ordinals whose ledger entries are not as stored."""

    def __init__(self, reservation: float, grace: float) -> None:
        self._reservation = reservation
        self._grace = grace
        self.pins: dict[TaskId, Pin] = {}
        self.seats: dict[int, Seat] = {}
        self.changed: set[int] = set()

    def clear(self) -> None:
        """A new term: others may have led."""
        self.pins.clear()
        self.seats.clear()
        self.changed.clear()

    def seat(self, ordinal: int) -> Seat:
        found = self.seats.get(ordinal)
        if found is None:
            found = self.seats[ordinal] = Seat()
        return found

    # --- promises ------------------------------------------------------------------------------------------------

    def adopt(self, entries: Mapping[int, Iterable[Entry]], now: float) -> None:
        """Takes what the ledger says; where it differs from what was believed, the ledger is what was told."""
        for ordinal, each in entries.items():
            for entry in each:
                known = self.pins.get(entry.task)
                if known is not None and known.ordinal == ordinal:
                    known.stored = True
                    continue
                if known is not None:
                    self.forget(entry.task)
                self._pin(Pin(entry.task, entry.cluster, entry.size, ordinal, now, entry.dated))

    def promise(self, arrival: Arrival, ordinal: int, now: float, dated: int) -> Pin:
        """The task is about to be sent there."""
        pin = Pin(arrival.task, arrival.cluster, arrival.size, ordinal, now, dated)
        self._pin(pin)
        self.seat(ordinal).idle_since = None
        return pin

    def renew(self, pin: Pin, now: float) -> None:
        """Its client is sent there once more."""
        pin.promised = now
        pin.seen = False
        self.seat(pin.ordinal).idle_since = None

    def forget(self, task: TaskId) -> None:
        """The task has no place any more."""
        pin = self.pins.pop(task, None)
        if pin is not None:
            self.seat(pin.ordinal).pins.pop(task, None)
            self.changed.add(pin.ordinal)

    def sweep(self, now: float, gone: Iterable[int]) -> None:
        """Ends promises on ordinals that have no pod and will get none. All others end by what their pod says."""
        for ordinal in gone:
            for pin in tuple(self.seat(ordinal).pins.values()):
                if now - pin.promised >= self._reservation:
                    self.forget(pin.task)

    def entries(self, ordinal: int) -> list[Entry]:
        """What the ledger has to say of an ordinal: promised tasks that are not known to have ended."""
        return [pin.entry for pin in self.seat(ordinal).pins.values() if pin.stored and not pin.ended]

    def _pin(self, pin: Pin) -> None:
        self.pins[pin.task] = pin
        self.seat(pin.ordinal).pins[pin.task] = pin
        self.changed.add(pin.ordinal)

    # --- what pods say -------------------------------------------------------------------------------------------

    def heard(self, ordinal: int, uid: str, answer: Answer, now: float) -> int:
        """Takes a good answer; returns how many running tasks its pod has lost by beginning anew."""
        seat, life = self.seat(ordinal), (uid, answer.started)
        lost = [] if seat.life == life else self._began(seat, now)
        seat.life, seat.asked, seat.served = life, answer.asked, uid
        seat.listed = {state.task: state for state in answer.states}
        seat.ended_since = {
            state.task: seat.ended_since.get(state.task, now) for state in answer.states if not state.running
        }
        for state, cluster in zip_longest(answer.states, answer.clusters[: len(answer.states)], fillvalue=0):
            assert isinstance(state, TaskState)
            assert isinstance(cluster, int)
            self._listed(ordinal, state, cluster, answer.at)
        for pin in tuple(seat.reserved()):
            if pin.cluster in answer.asked and (pin.seen or now - pin.promised >= self._reservation):
                self.forget(pin.task)
        self._clock(seat, now)
        return sum(task not in seat.listed for task in lost)

    def unsettled(self, ordinal: int) -> None:
        """The pod could not be read, or is not ready: it was not seen to be empty."""
        self.seat(ordinal).idle_since = None

    def left(self, ordinals: Iterable[int]) -> None:
        """These pods have been removed, and whatever ended tasks they listed."""
        for ordinal in ordinals:
            for task in tuple(self.seat(ordinal).pins):
                self.forget(task)
            self.seats.pop(ordinal, None)

    def lasting(self, ordinal: int, state: PodState, now: float) -> float:
        """For how long the ordinal has been in that state, told again and again."""
        seat = self.seat(ordinal)
        if seat.state is not state:
            seat.state, seat.state_since = state, now
        return now - seat.state_since

    # --- what follows from it ------------------------------------------------------------------------------------

    def reserved(self, ordinal: int) -> int:
        return sum(1 for _ in self.seat(ordinal).reserved())

    def ended(self, ordinal: int, now: float) -> int:
        return self.seat(ordinal).ended(now, self._grace)

    def disk(self, ordinal: int) -> int:
        """Bytes set aside on the pod for tasks that have not ended."""
        return DISK_PER_DATA * sum(pin.size for pin in self.seat(ordinal).pins.values() if not pin.ended)

    def idle(self, ordinal: int, now: float) -> float | None:
        since = self.seat(ordinal).idle_since
        return None if since is None else now - since

    def loaded(self) -> Iterable[int]:
        """The ordinals that have, or may have, tasks which have not ended."""
        return (n for n, seat in self.seats.items() if seat.running or any(seat.reserved()))

    def _began(self, seat: Seat, now: float) -> list[TaskId]:
        """Another life: what the last one ran is promised anew, what had ended there is gone."""
        first = seat.life is None
        lost = [task for task, state in seat.listed.items() if state.running]
        for pin in tuple(seat.pins.values()):
            if pin.ended:
                self.forget(pin.task)
            else:
                pin.seen, pin.promised = False, now
        seat.listed, seat.ended_since, seat.idle_since = {}, {}, None
        return [] if first else lost

    def _listed(self, ordinal: int, state: TaskState, cluster: int, at: float) -> None:
        pin = self.pins.get(state.task)
        if pin is None:
            pin = Pin(state.task, cluster, 0, ordinal, at, seen=True, stored=False)
            self._pin(pin)
        if pin.ordinal != ordinal or at < pin.promised:
            return
        pin.seen = True
        if pin.ended == state.running:
            pin.ended = not state.running
            self.changed.add(ordinal)

    def _clock(self, seat: Seat, now: float) -> None:
        empty = not seat.running and not any(seat.reserved()) and not seat.ended(now, self._grace)
        if not empty:
            seat.idle_since = None
        elif seat.idle_since is None:
            seat.idle_since = now
