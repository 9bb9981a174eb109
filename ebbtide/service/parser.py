"""Command lines, whose wrong words are answered with the nearest right one, if one is near, and with all there are.

Each command answers for its own words, with its own usage. What is printed on standard output is written when the
parser ends the program, so that a failure to write it is met where those of all other answers are.
"""

import sys
from argparse import Action, ArgumentError, ArgumentParser
from collections.abc import Collection, Sequence
from typing import Any

from ebbtide.likeness import nearest


class Parser(ArgumentParser):
    """The parser of every program; those of its commands are made of it, too. Flags are not abbreviated."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **named})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As a command's parser is called by the one above it, which would take unknown words for its own."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}")
        return found, unknown

    def _meant(self, unknown: Sequence[str]) -> str:
        """The nearest flag of each that is none."""
        flags = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        near = [each for flag in flags if (each := nearest(flag, self._option_string_actions))]
        return f" (the nearest: {', '.join(near)})" if near else ""

    def _check_value(self, action: Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise ArgumentError(action, no_such(value, list(map(str, action.choices))))

    def _print_message(self, message: str, file: Any = None) -> None:
        """argparse's own lets nobody know what could not be written."""
        if file is not sys.stdout:
            super()._print_message(message, file)
        elif message:
            file.write(message)
            file.flush()


def no_such(word: str, known: Collection[str]) -> str:
    """`there is no 'jsn'; the nearest is 'json' (of table, json)`, or `there is no 'x' (there are table, json)`."""
    if near := nearest(word, known):
        return f"there is no {word!r}; the nearest is {near!r} (of {', '.join(known)})"
    return f"there is no {word!r} (there are {', '.join(known)})"
