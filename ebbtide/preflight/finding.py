"""What a check says."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Only `fail` is a reason not to go on; `unknown` means that nobody looked, not that all is well."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of the check of that name.

    `seen` says what is there, on which object; `why` what follows from it; `cure` what to do. The last two are empty
    when nothing has to be done. `objects` names what was seen, for programs; `listed`: for people, too.
    """

    check: str
    status: Status
    seen: str
    why: str = ""
    cure: str = ""
    objects: tuple[str, ...] = ()
    listed: bool = False


def some(names: Iterable[str], most: int = 5) -> str:
    """The first names, and how many more there are: enough to go and look."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
