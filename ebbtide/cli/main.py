"""`ebbtide` and `kubectl ebbtide`: finds the command, runs it, turns failures into a message and an exit code.

Exit codes: 0 fine; 1 failure while running; 2 unusable arguments or configuration; 3 cluster not reachable or not
permitted; 130 interrupted; 141 the reader of our output went away (as if by SIGPIPE).
"""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from ebbtide.cli.commands import COMMANDS
from ebbtide.errors import EbbtideError

INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name and returns its exit code; SystemExit(2) for wrong arguments."""
    words = sys.argv[1:] if argv is None else argv
    program = _program(sys.argv[0])
    try:
        arguments = _parser(program, words).parse_args(words)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except EbbtideError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes once more at its end, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _program(path: str) -> str:
    return "kubectl ebbtide" if Path(path).name == "kubectl-ebbtide" else "ebbtide"


def _parser(program: str, words: Sequence[str]) -> ArgumentParser:
    """Every command is listed; only the one that is named is imported and has its arguments added."""
    parser = ArgumentParser(
        prog=program,
        description="Moves stateful workloads out of AWS Spot availability zones at risk.",
        epilog=f"'{program} COMMAND --help' describes a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ebbtide {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    named = next((word for word in words if not word.startswith("-")), None)
    for command in COMMANDS:
        below = commands.add_parser(
            command.name, help=command.summary, description=command.description, allow_abbrev=False
        )
        if command.name == named:
            module = command.load()
            module.add_arguments(below)
            below.set_defaults(run=module.run)
    if named is not None and named not in commands.choices:
        parser.error(f"there is no command {named!r}; the nearest is {_nearest(named)!r}")
    return parser


def _nearest(word: str) -> str:
    return get_close_matches(word, [command.name for command in COMMANDS], n=1, cutoff=0.0)[0]


def _version() -> str:
    try:
        return version("ebbtide")
    except PackageNotFoundError:
        return "(not installed)"
