"""Tables that are loaded, one load-data task each."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

# Keyspace and import of all tasks in the demo.
_KEYSPACE: Final = 1
_IMPORT: Final = 26
MIB: Final = 1 << 20
GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Table:
    """`number` is the third number of its task's id, `size` in bytes; sending takes `seconds` in so many chunks."""

    number: int
    name: str
    size: int
    seconds: float
    chunks: int = 20

    @property
    def task(self) -> str:
        return f"{_KEYSPACE}-{_IMPORT}-{self.number}-0"


class Step(Enum):
    """How far a table is. The value is a word for it."""

    ASKING = "asking"
    LOADING = "loading"
    LOADED = "loaded"
    FAILED = "failed"


def human(size: int) -> str:
    """`40M`, `1.5G`, `120G`."""
    if size < GIB:
        return f"{size / MIB:.0f}M"
    return f"{size / GIB:.1f}G" if size < 10 * GIB and size % GIB else f"{size / GIB:.0f}G"
