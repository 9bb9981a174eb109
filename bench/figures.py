"""Measured values, and how they are printed: always beside a peer or a floor from the same run."""

import operator
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_NAME_WIDTH = 62


@dataclass(frozen=True)
class Series:
    """The values of one thing, one per round, in `unit`."""

    name: str
    values: tuple[float, ...]
    unit: str

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def percentile(self, share: float) -> float:
        """The smallest value that at least that share (0 to 1) of all values do not exceed."""
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]

    def line(self, *shares: float) -> str:
        """Name, median and spread; the given percentiles too."""
        percentiles = "".join(f"  p{share * 100:.0f} {_number(self.percentile(share))}" for share in shares)
        return row(self.name, f"{_number(self.median)} {self.unit}", self.values, percentiles)


def milliseconds(name: str, seconds: Sequence[float]) -> Series:
    return Series(name, tuple(value * 1000 for value in seconds), "ms")


def ratio(ours: Series, peer: Series, aim: str = "") -> str:
    """The line with the median of the rounds' ratios; rounds pair up in their order."""
    quotients = tuple(mine / other for mine, other in zip(ours.values, peer.values, strict=True))
    median = statistics.median(quotients)
    return row("ratio, by round", f"{median:.2f}", quotients, judged(aim, median))


def judged(aim: str, value: float) -> str:
    """The end of a line: the aim ("≤ 2.5", "< 1", "≥ 3000"; "" for none) and whether the value meets it."""
    if not aim:
        return ""
    sign, limit = aim.split()
    meets = {"≤": operator.le, "<": operator.lt, "≥": operator.ge}[sign](value, float(limit))
    return f"  aim: {aim}, {'met' if meets else 'MISSED'}"


def row(name: str, value: str, values: Sequence[float] = (), note: str = "") -> str:
    """One line of a report; the spread of `values` is given when there are several."""
    spread = f"  ({_number(min(values))} .. {_number(max(values))})" if len(values) > 1 else ""
    return f"  {name:{_NAME_WIDTH}} {value:>12}{spread}{note}"


def heading(command: str, what: str) -> str:
    """What was run, on what, and how busy the machine was with other things (one minute's load average)."""
    machine = f"{os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}"
    return f"{command}: {what}\n  {machine}; load at the start {os.getloadavg()[0]:.1f}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
