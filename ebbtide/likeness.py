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
    matcher = SequenceMatcher(b=word, autojunk=False)
    best, most = "", 0.0
    for candidate in known:
        matcher.set_seq1(candidate)
        likeness = matcher.ratio()
        if likeness > most and (likeness >= _ALIKE or _is_short_for(word, candidate)):
            best, most = candidate, likeness
    return best


def _is_short_for(word: str, candidate: str) -> bool:
    return len(word) >= _ABBREVIATION and (candidate.startswith(word) or word in candidate.split("-"))
