"""Logs: structlog, one line per event, to stderr.

`configure` is called once at the start of a program. Records of the standard library's logging (aiohttp, asyncio)
take the same way out. What may be sensitive or huge never gets in: values are cut to what is plain and short, so that
an object handed to a log call by mistake shows as its type and not as its content.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, Literal, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "console"]

LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error")
FORMATS: Final[tuple[Format, ...]] = ("json", "console")

# A line of a log stays readable, and below what collectors cut off (16 KiB in container runtimes).
_LONGEST: Final = 1000
_LONGEST_TRACEBACK: Final = 12_000
_SECRET_WORDS: Final = ("authorization", "password", "secret", "token", "private_key")
# These say every request of the observability port, and every slow callback of a busy machine.
_QUIET: Final = ("aiohttp.access", "kubernetes_asyncio")


def configure(level: Level = "info", output: Format | None = None, stream: TextIO | None = None) -> None:
    """Sets up logging for the whole process; may be called again.

    `output` None is `console` when `stream` (default stderr) is a terminal, otherwise `json`.
    """
    target = stream or sys.stderr
    form = output or default_format(target)
    rendering = _console(target) if form == "console" else _json()
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = _Handler(target, form)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_shared(), processors=rendering))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


class _Handler(logging.StreamHandler[TextIO]):
    """Knows in which form it writes."""

    def __init__(self, stream: TextIO, form: Format) -> None:
        super().__init__(stream)
        self.form = form


def frequent(name: str) -> Callable[[str, Mapping[str, Any]], None]:
    """A way to log what happens with every request, as `info(event, facts)` and in the same form, at 2 µs a line.

    The whole chain of processors takes 60. What it would cut or hide has to be left out by the caller: facts are
    numbers, booleans and short words. Lines are written once per turn of the loop. To be asked for after `configure`.
    """
    slow = structlog.stdlib.get_logger(name)
    if not logging.getLogger(name).isEnabledFor(logging.INFO):
        return lambda _event, _facts: None
    handler = next((each for each in logging.getLogger().handlers if isinstance(each, _Handler)), None)
    if handler is None or handler.form == "console":
        return lambda event, facts: slow.info(event, **facts)
    add, options = _Lines(handler.stream).add, orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE

    def write(event: str, facts: Mapping[str, Any]) -> None:
        line = {"timestamp": datetime.now(UTC), "level": "info", "event": event, "logger": name, **facts}
        add(orjson.dumps(line, option=options))

    return write


class _Lines:
    """Whole lines on their way to a stream, past its encoding where it has bytes below it.

    All that come within a turn of the event loop are written together, since a write takes longer than all else about
    a line; without a loop each is written at once. Lines that cannot be written (the reader has gone, the disk is full,
    the stream is closed) are lost: no request fails for its log line.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._below: BinaryIO | None = getattr(stream, "buffer", None)
        self._waiting: list[bytes] = []

    def add(self, line: bytes) -> None:
        self._waiting.append(line)
        if len(self._waiting) > 1:
            return
        try:
            asyncio.get_running_loop().call_soon(self._write)
        except RuntimeError:
            self._write()

    def _write(self) -> None:
        lines, self._waiting = b"".join(self._waiting), []
        with suppress(OSError, ValueError):
            if self._below is None:
                self._stream.write(lines.decode())
                self._stream.flush()
            else:
                self._below.write(lines)
                self._below.flush()


def default_format(stream: TextIO) -> Format:
    """`console` for a terminal, `json` for anything else."""
    return "console" if stream.isatty() else "json"


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.format_exc_info,
        _plain,
    ]


def _json() -> list[Processor]:
    return [structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer(_serialized)]


def _console(stream: TextIO) -> list[Processor]:
    return [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback),
    ]


def _serialized(event: EventDict, **_options: object) -> str:
    """One line that begins with what everybody looks for first."""
    first = {key: event[key] for key in ("timestamp", "level", "event") if key in event}
    return orjson.dumps({**first, **event}, default=str).decode()


def _plain(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Keeps numbers and short words, shows everything else as no more than it should."""
    for key, value in event.items():
        if not key.startswith("_"):
            event[key] = _short(key, value)
    return event


def _short(key: str, value: Any) -> Any:
    if any(word in key.lower() for word in _SECRET_WORDS):
        return "(not shown)"
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            longest = _LONGEST_TRACEBACK if key == "exception" else _LONGEST
            return value if len(value) <= longest else value[:longest] + "…"
        case Mapping() | bytes() | bytearray():
            return f"({type(value).__name__}, {len(value)})"
        case list() | tuple() | set() | frozenset():
            return [_short(key, item) for item in list(value)[:20]]
        case _:
            return _short(key, str(value))
