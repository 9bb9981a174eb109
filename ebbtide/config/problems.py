"""What is wrong with a configuration, all of it at once, in words that name the key and what is allowed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.counting import count
from ebbtide.errors import UsageError


@dataclass(frozen=True)
class Origin:
    """Where a value came from: `source` is "default", "file" or "environment"; `name` the path or the variable."""

    source: str
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.source


DEFAULT = Origin("default")


@dataclass(frozen=True)
class Problem:
    """`key` is the dotted path (or the variable); `text` goes on after it; `origin` says where to look."""

    key: str
    text: str
    origin: Origin

    def __str__(self) -> str:
        return f"{self.key}{self.text} [{self.origin}]"


class ConfigurationError(UsageError):
    """The configuration cannot be used. `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        found = count(len(problems), "problem")
        super().__init__("\n".join((f"configuration cannot be used, {found}:", *(f"  {p}" for p in problems))))


def shown(value: Any, limit: int = 80) -> str:
    """A value as in the file, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def refused(key: str, value: Any, allowed: str, origin: Origin) -> Problem:
    """A value that is not of the allowed form."""
    return Problem(key, f" = {shown(value)} must be {allowed}", origin)


def unknown(key: str, nearest: str, origin: Origin, what: str = "key") -> Problem:
    """A key or variable that does not exist."""
    return Problem(key, f" is not a known {what}; the nearest is {nearest}", origin)
