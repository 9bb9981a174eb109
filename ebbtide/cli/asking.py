"""What the commands that look at a cluster once have in common: flags, connection, exit codes, forms of output."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any, Final

import orjson
from rich.console import Console, RenderableType
from rich.text import Text

from ebbtide.config.names import is_http_url
from ebbtide.service.arguments import Common, add_common
from ebbtide.service.question import PATIENCE, Question
from ebbtide.service.question import ask as ask_once

FORMS: Final = ("table", "json")
# Nothing is folded where no terminal has a width: every row stays one line for the next program.
AS_WIDE_AS_IT_GETS: Final = 10_000


def add_flags(parser: ArgumentParser) -> None:
    """The common flags and `--output`. Logs are kept to warnings: standard output is for the answer."""
    add_common(parser)
    parser.set_defaults(log_level="warning")
    parser.add_argument("--output", choices=FORMS, default="table", help="form of the answer (default: %(default)s)")


def add_url(parser: ArgumentParser) -> None:
    """`--url`, for what a reconciler knows."""
    parser.add_argument(
        "--url",
        type=_url,
        metavar="URL",
        help="ask the reconciler that serves metrics there, as in http://127.0.0.1:8080, instead of finding the leader",
    )


def _url(text: str) -> str:
    if not is_http_url(text):
        raise ArgumentTypeError(f"{text!r} is no http:// or https:// URL")
    return text


def ask(arguments: Namespace, question: Question, *, patience: float = PATIENCE) -> int:
    """Runs `question` as `ebbtide.service.question` does, with the common flags. Raises EbbtideError."""
    common = Common.of(arguments)
    common.configure_logs()
    return ask_once(common, question, patience=patience)


class Terminal(Console):
    """Standard output, as a terminal or as a pipe. Nothing that is printed is taken for markup or looks at numbers.

    Colours go where there is a terminal, and `NO_COLOR` is not set.
    """

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False)
        if not self.is_terminal:
            self.width = AS_WIDE_AS_IT_GETS

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
