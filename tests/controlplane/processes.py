"""Server processes that end with the test run, keep their log, and show its end when something is wrong with them."""

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

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
    """A port of 127.0.0.1 that nobody listens on now; the caller retries when somebody is faster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
