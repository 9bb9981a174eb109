"""`ebbtide demo`."""

import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from textwrap import fill
from typing import Final

from rich.console import Console

from ebbtide.cli.asking import AS_WIDE_AS_IT_GETS
from ebbtide.cli.demo.account import account
from ebbtide.cli.demo.load.account import account as account_of_load
from ebbtide.cli.demo.output import Lines, Pictures
from ebbtide.cli.demo.play import Ending, play, rehearse
from ebbtide.cli.demo.scenario import Scenario
from ebbtide.cli.demo.scenarios import SCENARIOS
from ebbtide.errors import UsageError
from ebbtide.service.parser import no_such

# Every scenario is over in less than a minute: the longest may last ten simulated minutes, and most take four.
_SPEED: Final = 10.0
_SLOWEST: Final = 0.5
_FASTEST: Final = 50.0
_AS_FAST_AS_IT_GOES: Final = "max"
# Of what goes on below the words of a dated line.
_INDENT: Final = " " * 9
_UNBOUNDED: Final = float("inf")


def add_arguments(parser: ArgumentParser) -> None:
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = "\n".join(("scenarios:", *catalogue()))
    parser.add_argument(
        "--scenario", metavar="NAME", type=_scenario, default=SCENARIOS[0], help=f"default: {SCENARIOS[0].name}"
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios and what they promise")
    parser.add_argument(
        "--speed",
        metavar="FACTOR",
        type=_speed,
        help=f"simulated seconds in one second, {_SLOWEST:g} to {_FASTEST:g} (default: {_SPEED:g}), "
        f"or {_AS_FAST_AS_IT_GOES} (default of --output plain)",
    )
    parser.add_argument(
        "--output", choices=("live", "plain"), help="default: live on a terminal, plain for anything else"
    )
    parser.add_argument("--seed", type=int, default=1, help="decides everything that is left to chance (default: 1)")


def run(arguments: Namespace) -> int:
    """Returns 1 when the scenario did not end as it promises. Raises UsageError."""
    if arguments.list:
        print("\n".join(catalogue()))
        return 0
    _write_whatever_the_encoding()
    console = Console(highlight=False)
    on_terminal = sys.stdout.isatty() and not console.is_dumb_terminal
    if arguments.output == "live" and not on_terminal:
        raise UsageError("--output live needs a terminal; --output plain writes lines")
    live = on_terminal and arguments.output != "plain"
    with _terminated_in_order():
        ending = _live(console, arguments) if live else _plain(arguments)
        told = list(_account(ending, arguments.seed))
    width = console.width if on_terminal else AS_WIDE_AS_IT_GETS
    print("", *(fill(line, width, subsequent_indent=_INDENT) for line in told), sep="\n")
    return 1 if ending.broken else 0


def _account(ending: Ending, seed: int) -> Iterator[str]:
    """A database is played again without a reconciler; without one nothing would answer those who load data."""
    if ending.scenario.scaler is not None:
        return account_of_load(ending)
    return account(ending, rehearse(ending.scenario, seed))


def catalogue() -> Iterator[str]:
    """Names and what they show, one line each."""
    width = max(len(scenario.name) for scenario in SCENARIOS)
    for scenario in SCENARIOS:
        yield f"  {scenario.name:<{width}}  {scenario.summary}"


def _live(console: Console, arguments: Namespace) -> Ending:
    speed = arguments.speed or _SPEED
    pictures = Pictures(console, arguments.scenario, speed)
    ending = play(arguments.scenario, arguments.seed, None if speed == _UNBOUNDED else speed, pictures)
    console.print(pictures.last(ending.evidence.scene))
    return ending


def _plain(arguments: Namespace) -> Ending:
    speed = arguments.speed or _UNBOUNDED
    print(f"{arguments.scenario.name}: {arguments.scenario.summary}\n")
    return play(arguments.scenario, arguments.seed, None if speed == _UNBOUNDED else speed, Lines(sys.stdout))


def _write_whatever_the_encoding() -> None:
    """Where a character cannot be written, a question mark is better than the end of the play."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C does, so that the terminal is left as it was found."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _scenario(name: str) -> Scenario:
    known = {scenario.name: scenario for scenario in SCENARIOS}
    if name not in known:
        raise ArgumentTypeError(f"{no_such(name, known)}; --list says what each is about")
    return known[name]


def _speed(text: str) -> float:
    if text == _AS_FAST_AS_IT_GOES:
        return _UNBOUNDED
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not _SLOWEST <= speed <= _FASTEST:
        raise ArgumentTypeError(f"must be {_SLOWEST:g} to {_FASTEST:g}, or {_AS_FAST_AS_IT_GOES}; it is {text!r}")
    return speed
