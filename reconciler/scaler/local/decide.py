"""Which local pod gets the next task. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A local pod that has told its tasks just now. `running` counts what is promised to it and not yet seen."""

    name: str
    ordinal: int
    running: int


def choose(candidates: Iterable[Candidate]) -> Candidate | None:
    """The one with the fewest running tasks, of equals the one with the lowest ordinal; None without any."""
    return min(candidates, key=lambda each: (each.running, each.ordinal, each.name), default=None)
