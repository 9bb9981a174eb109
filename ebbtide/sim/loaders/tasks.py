"""Tasks in the words of the load-data protocol, as its other side has them.

An id is `{keyspace}-{import}-{table}-{engine}`; the engine of the index is -1, so that its id has a double dash.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

_NUMBER: Final = re.compile(r"(-?\d+)(?:-|$)", re.ASCII)
_PARTS: Final = 4
# Every count that a worker keeps of a task, by its key in answers.
COUNTERS: Final = ("flushed-files", "created-files", "ingested-regions", "total-kvs", "duplicated-entries")


class TaskNumber(NamedTuple):
    """The four numbers of an id; `str` is the id."""

    keyspace: int
    import_id: int
    table: int
    engine: int

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> "TaskNumber":
        """Raises ValueError."""
        found = numbers(text)
        if len(found) != _PARTS:
            raise ValueError("a task id has four numbers")
        return cls(*found)


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of an id or of its beginning; a dash at the end is let pass. Raises ValueError."""
    found: list[int] = []
    at = 0
    while at < len(text):
        number = _NUMBER.match(text, at)
        if number is None:
            raise ValueError("not a row of numbers")
        found.append(int(number[1]))
        at = number.end()
    return tuple(found)


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """What a worker knows of a task. `counts` stand in the order of `COUNTERS`; `ended_at` is the loop's time."""

    task: TaskNumber
    canceled: bool = False
    finished: bool = False
    error: str = ""
    counts: tuple[int, ...] = (0,) * len(COUNTERS)
    ended_at: float | None = None

    @property
    def running(self) -> bool:
        """Neither finished nor cancelled; an error alone does not end a task."""
        return not self.finished and not self.canceled

    def document(self) -> dict[str, Any]:
        """`LoadTaskStates`."""
        return {
            "task-id": str(self.task),
            "canceled": self.canceled,
            "finished": self.finished,
            "error": self.error,
            **dict(zip(COUNTERS, self.counts, strict=True)),
        }
