"""Tables for terminals of any width: what a row is about is always there, figures are where there is room."""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

# Blanks between two columns.
_GAP: Final = 2
# Names and sentences are folded down to so many columns before figures are left out for them.
_LEAST: Final = 12


def table(
    names: Sequence[str], rows: Sequence[Sequence[Text]], width: int, *, keys: int, folded: Sequence[str]
) -> Table:
    """`names` above `rows`, `width` columns wide at most.

    The first `keys` columns say what a row is about and how it is; of the others those on the right go first where
    there is no room. `folded` are names and sentences, which go on in the next line; what must not be folded is, too,
    once nothing else helps.
    """
    natural = [max(Text(name).cell_len, *(row[at].cell_len for row in rows)) for at, name in enumerate(names)]
    kept = _kept(names, natural, width, keys, folded)
    widths = _widths([natural[at] for at in kept], [names[at] in folded for at in kept], width)
    found = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for at, room in zip(kept, widths, strict=True):
        found.add_column(names[at], width=room, overflow="fold")
    for row in rows:
        found.add_row(*(row[at] for at in kept))
    return found


def _kept(names: Sequence[str], natural: Sequence[int], width: int, keys: int, folded: Sequence[str]) -> list[int]:
    """Indexes of the columns for which there is room."""
    least = [min(room, _LEAST) if name in folded else room for name, room in zip(names, natural, strict=True)]
    kept = list(range(len(names)))
    for at in reversed(range(keys, len(names))):
        if sum(least[each] + _GAP for each in kept) - _GAP <= width:
            break
        if names[at] not in folded:
            kept.remove(at)
    return kept


def _widths(natural: Sequence[int], folds: Sequence[bool], width: int) -> list[int]:
    """The widest gives way, of those that may be folded while these have room."""
    found = list(natural)
    available = width - _GAP * (len(found) - 1)
    while sum(found) > available and max(found) > 1:
        candidates = [at for at, fold in enumerate(folds) if fold and found[at] > _LEAST] or range(len(found))
        found[max(candidates, key=lambda at: found[at])] -= 1
    return found
