"""However narrow a terminal is, a row says what it is about; figures are there where they have room."""

from collections.abc import Sequence
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from ebbtide.cli.tables import table

NAMES = ("GROUP", "ZONE", "STATE", "FOR", "SIGNALS", "NODES", "TAINTED", "CORDONED")
ROWS = [
    ("serverless-tiflash-write-node-group", "ap-northeast-1a", "ineffective", "12 min", "2, 7 min", "12", "12", "-"),
    ("b", "ap-northeast-1c", "open", "-", "-", "3", "-", "-"),
]
SHORT = [("g", "us-east-1a", "blocked", "7 min", "2, 7 min", "2", "2", "-"), ("g", "us-east-1b", "open", *"--3--")]


def drawn(rows: Sequence[tuple[str, ...]], width: int, keys: int = 3, folded: tuple[str, ...] = NAMES[:2]) -> list[str]:
    console = Console(file=StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(table(NAMES, [[Text(cell) for cell in row] for row in rows], width, keys=keys, folded=folded))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (200, 8),
        (69, 8),
        (68, 7),
        (59, 7),
        (58, 6),
        (50, 6),
        (49, 5),
        (43, 5),
        (42, 4),
        (33, 4),
        (32, 3),
        (26, 3),
    ],
)
def test_figures_go_from_the_right(width: int, columns: int) -> None:
    lines = drawn(SHORT, width)
    assert lines[0].split() == list(NAMES[:columns])
    assert lines[1].split()[:3] == ["g", "us-east-1a", "blocked"]
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [*range(20, 132), 200])
def test_what_a_row_is_about_is_never_lost(width: int) -> None:
    """In as many lines as it takes, and not in more than the terminal is wide."""
    lines = drawn(ROWS, width)
    assert max(map(len, lines)) <= width
    starts = [at for at in range(len(lines[0])) if at == 0 or (lines[0][at - 2 : at] == "  " and lines[0][at] != " ")]
    assert len(starts) >= 3
    for column, start in enumerate(starts[:3]):
        end = starts[column + 1] if column + 1 < len(starts) else width
        cells = "".join(line[start:end].strip() for line in lines)
        assert cells == NAMES[column] + ROWS[0][column] + ROWS[1][column]


def test_where_all_has_room_nothing_is_folded() -> None:
    assert len(drawn(ROWS, 200)) == 3


def test_even_what_is_not_to_be_folded_is_folded_where_nothing_else_helps() -> None:
    lines = drawn(SHORT, 16)
    assert max(map(len, lines)) <= 16
    assert "".join("".join(line.split()) for line in lines).count("-") >= 4
