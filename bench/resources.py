"""What a process of this machine has used, as the kernel counts it."""

import asyncio
import time
from pathlib import Path

# clock_getcpuclockid(3) is this arithmetic (linux/posix-timers_types.h); /proc counts in hundredths of a second only.
_CPUCLOCK_SCHED = 2
# How long a process has to do next to nothing before it counts as having digested what it was given.
_QUIET_SECONDS = 2.0
_NEXT_TO_NOTHING = 0.05


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads so far. Raises OSError when it has ended."""
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def resident_mb(pid: int) -> float:
    """Megabytes (10^6 bytes) in memory now."""
    return _status(pid, "VmRSS")


def peak_mb(pid: int) -> float:
    """The most megabytes (10^6 bytes) that it has ever had in memory."""
    return _status(pid, "VmHWM")


async def digested(pid: int) -> None:
    """Returns when the process has been next to idle for a while."""
    before = cpu_seconds(pid)
    while True:
        await asyncio.sleep(_QUIET_SECONDS)
        now = cpu_seconds(pid)
        if now - before <= _NEXT_TO_NOTHING * _QUIET_SECONDS:
            return
        before = now


def _status(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(f"process {pid} has no {name}: it has ended")
