"""How a program ends: with what exit code, and with which words on standard error.

Exit codes: 0 fine; 1 failure while running; 2 unusable arguments or configuration; 3 cluster not reachable or not
permitted; 130 interrupted; 141 the reader of our output went away (as if by SIGPIPE).
"""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

from ebbtide.errors import EbbtideError

INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141


class OutputError(EbbtideError):
    """Standard output takes nothing, for another reason than that its reader went away."""


def exit_code(name: str, program: Callable[[], int | None]) -> int:
    """What the program ends with. Its failures become words on standard error, without a traceback.

    SystemExit passes, as parsers of arguments raise it.
    """
    try:
        with _answering():
            return program() or 0
    except EbbtideError as error:
        remark(f"{name}: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return PIPE_CLOSED
    finally:
        _settle(sys.stderr)


def remark(text: str) -> None:
    """A line on standard error. No command fails because nobody can be told beside its answer."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


class _Answer(io.TextIOWrapper):
    """Standard output whose failures are those of standard output, and not of any file or connection."""

    def write(self, text: str) -> int:
        with _told():
            return super().write(text)

    def flush(self) -> None:
        with _told():
            super().flush()


class _Closed(io.RawIOBase):
    """In place of a standard output that the program was started without."""

    def writable(self) -> bool:
        return True

    def write(self, _: Any) -> int:
        raise OSError(errno.EBADF, "it is closed")


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


@contextmanager
def _answering() -> Iterator[None]:
    """Standard output as `_Answer`, written to its end."""
    plain = sys.stdout
    answer = _answer_of(plain)
    if answer is None:
        yield
        return
    sys.stdout = answer
    try:
        yield
        answer.flush()
    finally:
        sys.stdout = plain
        with suppress(OSError, OutputError):
            answer.detach()
        _settle(plain)


def _answer_of(stream: TextIO | None) -> _Answer | None:
    """None for a stream in memory, which takes everything."""
    if stream is None:
        return _Answer(io.BufferedWriter(_Closed()), encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return None
    return _Answer(
        stream.buffer,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _settle(stream: TextIO | None) -> None:
    """Python flushes both streams once more at its end: what cannot be written then would be the last word."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
