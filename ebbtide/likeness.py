"""Which known word was meant by one that is not known."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

# Share of letters in common, 0 to 1, below which words have no more in common than any two.
_ALIKE: Final = 0.6
# So many letters that a known word begins with are an abbreviation of it, however much is left out.
_ABBREVIATION: Final = 3


def nearest(word: str, known: Iterable[str]) -> str:
    """The most similar of the known words, the first of equals; "" where none is near enough to have been meant."""
    return most_similar(word, (each for each in known if _likeness(word, each) >= _ALIKE or _is_short_for(word, each)))


def most_similar(word: str, known: Iterable[str]) -> str:
    """However far it is; the first of equals, "" where there is none."""
    return max(known, key=lambda each: _likeness(word, each), default="")


def _likeness(word: str, known: str) -> float:
    return SequenceMatcher(b=word, a=known, autojunk=False).ratio()


def _is_short_for(word: str, candidate: str) -> bool:
    return len(word) >= _ABBREVIATION and (candidate.startswith(word) or word in candidate.split("-"))
