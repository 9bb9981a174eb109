"""`ebbtide certs` and `python -m certs`: certificates by hand, to files or to the Secret."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import orjson

from certs import examine, files
from certs.by_hand import ByHand
from certs.decide import CA, LEAF
from certs.examine import Examination
from certs.show import show
from certs.spec import spec_of
from certs.watch import read_directory
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.errors import EbbtideError
from ebbtide.kube.client import Client
from ebbtide.service.arguments import Common, add_common
from ebbtide.service.ending import exit_code
from ebbtide.service.parser import Parser
from ebbtide.service.question import ask


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commands below `certs`, each with its flags."""
    commands = parser.add_subparsers(dest="certs_command", metavar="COMMAND", required=True)
    issue = _command(commands, "issue", "make a CA and a leaf, as files or in the Secret")
    issue.add_argument("--directory", type=Path, metavar="DIR", help="write files there instead of the Secret")
    issue.add_argument("--force", action="store_true", help="overwrite files; with a Secret, issue another leaf")
    inspect = _command(commands, "inspect", "show certificates, their faults and who trusts them")
    inspect.add_argument("--directory", type=Path, metavar="DIR", help="look at files there instead of the Secret")
    inspect.add_argument("--output", choices=("table", "json"), default="table", help="form of the answer")
    rotate = _command(commands, "rotate", "have a new CA or leaf made")
    what = rotate.add_mutually_exclusive_group(required=True)
    what.add_argument("--ca", dest="what", action="store_const", const=CA, help="a new CA, with the usual overlap")
    what.add_argument("--leaf", dest="what", action="store_const", const=LEAF, help="a new leaf of the CA in force")


def start(arguments: argparse.Namespace) -> int:
    """Runs the command; 0, or 1 where `inspect` has found a fault. Raises EbbtideError."""
    common = Common.of(arguments)
    common.configure_logs()
    match arguments.certs_command:
        case "issue" if arguments.directory is not None:
            return _issue_files(common.settings(), arguments)
        case "inspect" if arguments.directory is not None:
            return _inspect_files(common.settings(), arguments)
        case _:
            return ask(common, partial(_in_cluster, arguments), name="ebbtide-certs")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m certs`; returns the exit code."""
    parser = Parser(prog="python -m certs")
    add_arguments(parser)
    return exit_code("certs", lambda: start(parser.parse_args(argv)))


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, summary: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    add_common(parser)
    parser.set_defaults(log_level="warning")
    return parser


def _issue_files(settings: Settings, arguments: argparse.Namespace) -> int:
    spec = spec_of(settings.certs, settings.home)
    for path in files.issue(arguments.directory, spec, SystemClock().now(), force=arguments.force):
        _say(f"written: {path}")
    return 0


def _inspect_files(settings: Settings, arguments: argparse.Namespace) -> int:
    spec = spec_of(settings.certs, settings.home)
    try:
        offer = read_directory(arguments.directory)
    except OSError as error:
        raise EbbtideError(f"{error.filename}: {error.strerror}") from error
    return _answer(examine.files(str(arguments.directory), offer, spec, SystemClock().now()), arguments.output)


async def _in_cluster(arguments: argparse.Namespace, client: Client, settings: Settings) -> int:
    if settings.certs.mode != "self-managed" and arguments.certs_command != "inspect":
        raise EbbtideError('certs.mode is "files": whoever issues them rotates them, too')
    hand = ByHand(client, settings, settings.home, SystemClock())
    match arguments.certs_command:
        case "issue":
            await hand.issue(_say, force=arguments.force)
        case "rotate":
            await hand.rotate(arguments.what, _say)
        case _:
            return _answer(await hand.inspect(), arguments.output)
    return 0


def _answer(examination: Examination, form: str) -> int:
    if form == "json":
        text = orjson.dumps(examine.document(examination), option=orjson.OPT_INDENT_2).decode()
        sys.stdout.write(text + "\n")
    else:
        show(examination, SystemClock().now())
    return 1 if examination.faults else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
