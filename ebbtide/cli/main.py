"""`ebbtide` and `kubectl ebbtide`: finds the command and runs it."""

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ebbtide.cli.commands import COMMANDS
from ebbtide.service.ending import exit_code
from ebbtide.service.parser import Parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name and returns its exit code; SystemExit(2) for wrong arguments."""
    words = sys.argv[1:] if argv is None else argv
    program = _program(sys.argv[0])

    def command() -> int:
        arguments = command_line(program, words).parse_args(words)
        code: int = arguments.run(arguments)
        return code

    return exit_code(program, command)


def _program(path: str) -> str:
    return "kubectl ebbtide" if Path(path).name == "kubectl-ebbtide" else "ebbtide"


def command_line(program: str, words: Sequence[str]) -> Parser:
    """Every command is listed; only the one that is named is imported and has its arguments added."""
    parser = Parser(
        prog=program,
        description="Moves stateful workloads out of AWS Spot availability zones at risk.",
        epilog=f"'{program} COMMAND --help' describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"ebbtide {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    named = next((word for word in words if not word.startswith("-")), None)
    for command in COMMANDS:
        below = commands.add_parser(command.name, help=command.summary, description=command.description)
        if command.name == named:
            module = command.load()
            module.add_arguments(below)
            below.set_defaults(run=module.run)
    return parser


def _version() -> str:
    try:
        return version("ebbtide")
    except PackageNotFoundError:
        return "(not installed)"
