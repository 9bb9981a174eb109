"""An examination as a table."""

import sys
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from certs.examine import Examination, Row

# Nothing is folded where no terminal has a width.
_AS_WIDE_AS_IT_GETS: Final = 10_000


def show(examination: Examination, now: float) -> None:
    """Prints it on standard output."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=_AS_WIDE_AS_IT_GETS)
    # Rich would end the program by itself when the reader goes away.
    with console.capture() as captured:
        console.print(_table(examination, now))
    sys.stdout.write(captured.get())


def _table(examination: Examination, now: float) -> RenderableType:
    head = Text(f"{examination.subject}: {examination.step} ({examination.reason})", style="bold")
    rows = Table("WHAT", "FINGERPRINT", "NOT AFTER", "LEFT", "NAMES", "FAULT", box=None)
    for row in examination.rows:
        rows.add_row(*map(Text, _cells(row, now)))
    webhooks = Table("WEBHOOK", "CA BUNDLE", box=None)
    for name, fault in examination.entries:
        webhooks.add_row(Text(name), Text(fault or "trusts the leaf", style="red" if fault else ""))
    faults = [Text(f"fault: {fault}", style="red") for fault in examination.faults]
    return Group(head, *([rows] if examination.rows else []), *([webhooks] if examination.entries else []), *faults)


def _cells(row: Row, now: float) -> tuple[str, ...]:
    found = row.certificate
    if found is None:
        return (row.role, "-", "-", "-", "-", row.fault)
    end = datetime.fromtimestamp(found.not_after, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    left = f"{(found.not_after - now) / 86400:.1f} d"
    return (row.role, found.short, end, left, " ".join(sorted(found.names)) or "-", row.fault or "-")
