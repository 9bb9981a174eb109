"""Load-data tasks: their ids, and what a worker says of them. Pure.

The id is the client's: `{keyspace}-{import}-{table}-{engine}`, the engine -1 for the index (a double dash). It becomes
part of object names and of requests to workers, so nothing that does not parse gets past this module.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

_ID: Final = re.compile(r"(0|[1-9]\d{0,9})-(0|-?[1-9]\d{0,18})-(0|-?[1-9]\d{0,18})-(0|-?[1-9]\d{0,9})", re.ASCII)
_MOST_KEYSPACE: Final = 2**32 - 1
_MOST_64: Final = 2**63 - 1
_MOST_32: Final = 2**31 - 1
# The longest id: every number at its widest, a dash between each.
LONGEST_ID: Final = 10 + 1 + 20 + 1 + 20 + 1 + 11


class TaskId(NamedTuple):
    """One task. Ordered by its numbers; `str` is the client's spelling."""

    keyspace: int
    import_id: int
    table: int
    engine: int

    def __str__(self) -> str:
        return f"{self.keyspace}-{self.import_id}-{self.table}-{self.engine}"

    @classmethod
    def parse(cls, text: str) -> "TaskId":
        """Raises ValueError, with what is wrong, for anything but the canonical spelling of an id."""
        found = _ID.fullmatch(text) if len(text) <= LONGEST_ID else None
        if found is None:
            raise ValueError("not of the form {keyspace}-{import}-{table}-{engine}")
        task = cls(*map(int, found.groups()))
        if task.keyspace > _MOST_KEYSPACE:
            raise ValueError("the keyspace is above 4294967295")
        if not (-_MOST_64 - 1 <= task.import_id <= _MOST_64 and -_MOST_64 - 1 <= task.table <= _MOST_64):
            raise ValueError("import or table is out of the range of 64 bits")
        if not -_MOST_32 - 1 <= task.engine <= _MOST_32:
            raise ValueError("the engine is out of the range of 32 bits")
        return task

    def within(self, prefix: "TaskPrefix") -> bool:
        """Whether the id begins with those whole segments."""
        return self[: len(prefix.numbers)] == prefix.numbers


@dataclass(frozen=True, slots=True)
class TaskPrefix:
    """The first one to four numbers of task ids: `1` is keyspace 1, and not keyspace 10."""

    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return "-".join(map(str, self.numbers))

    @classmethod
    def parse(cls, text: str) -> "TaskPrefix":
        """Raises ValueError for what cannot be the beginning of an id; one dash at the end is let pass."""
        missing = 4
        while missing:
            missing -= 1
            try:
                task = TaskId.parse(text.removesuffix("-") + "-0" * missing)
            except ValueError:
                continue
            return cls(tuple(task)[: 4 - missing])
        raise ValueError("not the beginning of a task id")


@dataclass(frozen=True, slots=True)
class TaskState:
    """One entry of a worker's list. `progress` are its counters, only ever compared: a change is a sign of life."""

    task: TaskId
    canceled: bool = False
    finished: bool = False
    error: str = ""
    progress: tuple[int, ...] = ()

    @property
    def running(self) -> bool:
        """Neither finished nor cancelled; an error alone does not end a task."""
        return not self.finished and not self.canceled


_COUNTERS: Final = ("flushed-files", "created-files", "ingested-regions", "total-kvs", "duplicated-entries")


def read_states(body: bytes) -> tuple[TaskState, ...]:
    """A worker's answer to the list request. Raises ValueError for anything that is not such a list.

    All of it or nothing: half an answer would make tasks look ended that are not.
    """
    raw = orjson.loads(body)
    if not isinstance(raw, list):
        raise ValueError(f"a list of tasks is expected, found {type(raw).__name__}")
    return tuple(_state(entry) for entry in raw)


def write_states(states: Sequence[TaskState]) -> list[dict[str, Any]]:
    """The list in the words of the protocol."""
    return [
        {
            "task-id": str(state.task),
            "canceled": state.canceled,
            "finished": state.finished,
            "error": state.error,
            **dict(zip(_COUNTERS, (*state.progress, *(0,) * len(_COUNTERS)), strict=False)),
        }
        for state in states
    ]


def _state(raw: Any) -> TaskState:
    if not isinstance(raw, Mapping):
        raise ValueError("an entry of the list is not an object")
    return TaskState(
        task=TaskId.parse(str(raw.get("task-id") or "")),
        canceled=_flag(raw, "canceled"),
        finished=_flag(raw, "finished"),
        error=str(raw.get("error") or ""),
        progress=tuple(_count(raw, key) for key in _COUNTERS),
    )


def _flag(raw: Mapping[str, Any], key: str) -> bool:
    value = raw.get(key) or False
    if not isinstance(value, bool):
        raise ValueError(f"{key} is not true or false")
    return value


def _count(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key) or 0
    if not isinstance(value, int):
        raise ValueError(f"{key} is not a number")
    return value
