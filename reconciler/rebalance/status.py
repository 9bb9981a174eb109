"""Every cell as it was last looked at: what metrics, status and documents show, and what news is told against."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ebbtide.clock import Clock
from ebbtide.model import Cell
from reconciler.rebalance.signal import Signal
from reconciler.rebalance.stories import advice
from reconciler.rebalance.verdict import State, Verdict


@dataclass(frozen=True, slots=True)
class CellStatus:
    """A cell as it was last seen. `since` is the epoch second of its last change of state, None if that is unknown;
    `settles_at` the one at which an ineffective block holds by the passing of time alone, None if it does not."""

    state: State
    reason: str
    since: float | None
    signals: tuple[Signal, ...] = ()
    settles_at: float | None = None

    def advice(self, now: float) -> str:
        """What to do about it, as events have it; "" for nothing."""
        return advice(self.state, None if self.settles_at is None else max(0.0, self.settles_at - now))


def status_of(verdict: Verdict, since: float | None, signals: tuple[Signal, ...], now: float) -> CellStatus:
    """What `verdict` says of a cell now."""
    settles_at = None if verdict.settles_in is None else now + verdict.settles_in
    return CellStatus(verdict.state, verdict.reason, since, signals, settles_at)


class Statuses(Mapping[Cell, CellStatus]):
    """All cells that were looked at in this term."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cells: dict[Cell, CellStatus] = {}

    def __getitem__(self, cell: Cell) -> CellStatus:
        return self._cells[cell]

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def note(self, cell: Cell, verdict: Verdict, signals: tuple[Signal, ...]) -> State | None:
        """What the cell is now; returns the state in which it was, None if nothing was known of it."""
        before = self._cells.get(cell)
        same = before is not None and before.state is verdict.state
        now = self._clock.now()
        since = before.since if before is not None and same else now
        self._cells[cell] = status_of(verdict, since, signals, now)
        return None if before is None else before.state

    def forget(self, cell: Cell) -> None:
        """The cell has no node any more."""
        self._cells.pop(cell, None)

    def clear(self) -> None:
        """Nothing is known of any cell (a new term begins)."""
        self._cells.clear()
