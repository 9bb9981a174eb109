"""Time, handed in.

Pure code takes `now` as a number; the shells around it take a `Clock`. Waiting is always `asyncio.sleep` or a loop
timer, so that a loop with simulated time can skip it.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock in epoch seconds (what is on the cluster is dated by it) and monotonic seconds (durations)."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's wall clock, and the running loop's time."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
