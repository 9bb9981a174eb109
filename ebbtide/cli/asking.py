"""What the commands that look at a cluster once have in common: flags, connection, exit codes, forms of output."""

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson
from rich.console import Console, RenderableType
from rich.text import Text

from ebbtide.config import Settings
from ebbtide.errors import ClusterAccessError, EbbtideError
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, KubeError, NoCredentials, Unauthorized, Unreachable
from ebbtide.service.arguments import Common, add_common
from ebbtide.service.metrics import product_version

FORMS: Final = ("table", "json")
# Somebody is waiting: a server that says nothing for so many seconds is taken for one that is away.
PATIENCE: Final = 15.0
# Nothing is folded where no terminal has a width: every row stays one line for the next program.
_AS_WIDE_AS_IT_GETS: Final = 10_000


def add_flags(parser: ArgumentParser) -> None:
    """The common flags and `--output`. Logs are kept to warnings: standard output is for the answer."""
    add_common(parser)
    parser.set_defaults(log_level="warning")
    parser.add_argument("--output", choices=FORMS, default="table", help="form of the answer (default: %(default)s)")


def ask(
    arguments: Namespace, question: Callable[[Client, Settings], Awaitable[int]], *, patience: float = PATIENCE
) -> int:
    """Runs `question` against the cluster that the flags point at; returns its exit code.

    `patience` is how long (seconds) the server may say nothing to a read. Raises ClusterAccessError for a cluster that
    cannot be reached or does not permit the question, EbbtideError for one that answers with another failure.
    """
    common = Common.of(arguments)
    common.configure_logs()

    async def asked() -> int:
        settings = common.settings()
        access = await common.access()
        agent = f"ebbtide/{product_version()}"
        async with Client(access, field_manager="ebbtide", user_agent=agent, patience=patience) as client:
            try:
                return await question(client, settings)
            except (Forbidden, Unauthorized, NoCredentials) as error:
                raise ClusterAccessError(f"{access.identity} does not permit it: {error}") from error
            except Unreachable as error:
                raise ClusterAccessError(f"{access.identity} cannot be reached: {_why(error, patience)}") from error
            except KubeError as error:
                raise EbbtideError(f"{access.identity} answered with a failure: {error}") from error

    return asyncio.run(asked())


def _why(error: Unreachable, patience: float) -> str:
    timed_out = isinstance(error.__cause__, TimeoutError)
    return f"{error.what}: no answer within {patience:g} s" if timed_out else str(error)


class Terminal(Console):
    """Standard output, as a terminal or as a pipe. Nothing that is printed is taken for markup or looks at numbers.

    Colours go where there is a terminal, and `NO_COLOR` is not set.
    """

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False)
        if not self.is_terminal:
            self.width = _AS_WIDE_AS_IT_GETS

    def show(self, what: RenderableType) -> None:
        """Prints, without the blanks that fill lines up to the width."""
        with self.capture() as captured:
            self.print(what)
        lines = [line.rstrip() for line in captured.get().splitlines()]
        self.file.write("\n".join(lines) + "\n")
        self.file.flush()

    def on_broken_pipe(self) -> None:
        """Called while a BrokenPipeError is handled; the command line knows what to do about it."""
        raise BrokenPipeError


def plain(words: object, style: str = "") -> Text:
    """Words from the cluster: whatever could steer a terminal shows as a replacement character."""
    return Text("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in str(words)), style)


def print_json(document: Any, *, indented: bool = True) -> None:
    """One document on standard output, on a line of its own when it is not indented."""
    options = orjson.OPT_INDENT_2 if indented else None
    sys.stdout.write(orjson.dumps(document, option=options).decode() + "\n")
    sys.stdout.flush()


def duration(seconds: float) -> str:
    """A duration for people: `45 s`, `12 min`, `3.5 h`, `2.1 d`; a negative one is none."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} d"
