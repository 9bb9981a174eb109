"""Every cell as it was last looked at: what metrics, status and documents show, and what news is told against."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ebbtide.clock import Clock
from ebbtide.model import Cell
from reconciler.rebalance.signal import Signal
from reconciler.rebalance.verdict import State, Verdict


@dataclass(frozen=True, slots=True)
class CellStatus:
    """A cell as it was last seen. `since` is the epoch second of its last change of state, None if that is unknown."""

    state: State
    reason: str
    since: float | None
    signals: tuple[Signal, ...] = ()


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
        since = before.since if before is not None and same else self._clock.now()
        self._cells[cell] = CellStatus(verdict.state, verdict.reason, since, signals)
        return None if before is None else before.state

    def forget(self, cell: Cell) -> None:
        """The cell has no node any more."""
        self._cells.pop(cell, None)

    def clear(self) -> None:
        """Nothing is known of any cell (a new term begins)."""
        self._cells.clear()
