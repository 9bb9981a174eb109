"""Server processes that end with the test run, keep their log, and show its end when something is wrong with them."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

# Lines of a log that a failure is reported with.
TAIL = 40
# Between two looks at a condition that only polling shows.
POLL_INTERVAL = 0.05
# A server gets this long to end by itself before it is killed: nothing on its disk is needed any more.
STOP_GRACE = 5.0

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)


class ServerError(Exception):
    """A server did not start, or has died; the message ends with the tail of its log."""


def die_with_parent() -> None:
    """For `preexec_fn`: the kernel kills this process when the one that started it dies, however that happens."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # it died before the line above
        os.kill(os.getpid(), signal.SIGKILL)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, and that is nobody else's until this process ends.

    A program takes seconds until it listens. What the kernel picks by itself would long be the local end of somebody's
    connection by then, or another test run's: so it is none of those ports, and of a block that this process has to
    itself.
    """
    return next(port for port in _PORTS if _is_free(port))


def _own_ports() -> Iterator[int]:
    """Every port of a block of this process's own, then those of another one."""
    lowest, highest = map(int, _PICKED_BY_KERNEL.read_text().split())
    below, above = range(_FIRST_PORT, lowest - _BLOCK, _BLOCK), range(highest + 1, _LAST_PORT - _BLOCK, _BLOCK)
    for first in (*below, *above):
        if _claim(first):
            yield from range(first, first + _BLOCK)
    raise AssertionError("no port is left")


def _claim(block: int) -> bool:
    """By a name in the kernel that goes with this process."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with contextlib.suppress(OSError):
        name.bind(f"\0ebbtide-tests-ports-{block}")
        _claims.append(name)
        return True
    name.close()
    return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


_PICKED_BY_KERNEL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT, _LAST_PORT, _BLOCK = 10_000, 65_536, 64
_claims: Final[list[socket.socket]] = []
_PORTS: Final = _own_ports()


class Server:
    """One running program. Its whole output is in `log`."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # an interrupt at the terminal is the test run's, which then stops us in order
                preexec_fn=die_with_parent,  # noqa: PLW1509 # two system calls that need no lock
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raises ServerError when the process has ended."""
        status = self._process.poll()
        if status is not None:
            raise ServerError(f"{self.name} has ended with status {status}\n{self.tail()}")

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Returns when the condition holds. Raises ServerError when the process dies or the time is over."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise ServerError(f"{self.name}: not {what} after {seconds:.0f} s\n{self.tail()}")
            time.sleep(POLL_INTERVAL)

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL:]
        return "\n".join([f"--- end of {self.log}", *lines])

    def stop(self) -> None:
        """Ends the process and waits until it is gone."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
