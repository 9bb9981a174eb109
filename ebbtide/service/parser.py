"""Command lines, whose wrong words are answered with the nearest right one and with all there are."""

from argparse import Action, ArgumentError, ArgumentParser
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any


class Parser(ArgumentParser):
    """The parser of every program; those of its commands are made of it, too. Flags are not abbreviated."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **named})

    def _check_value(self, action: Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise ArgumentError(action, no_such(value, list(map(str, action.choices))))


def no_such(word: str, known: Collection[str]) -> str:
    """`there is no 'jsn'; the nearest is 'json' (of table, json)`."""
    nearest = get_close_matches(word, known, n=1, cutoff=0.0)[0]
    return f"there is no {word!r}; the nearest is {nearest!r} (of {', '.join(known)})"
