"""What somebody may have meant by a name that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 5


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """At most five of the names: those that contain the word (a workload's name, an address), then similar ones."""
    known = sorted(set(names))
    containing = [name for name in known if word and word in name]
    similar = get_close_matches(word, known, n=_MOST)
    return list(dict.fromkeys([*containing, *similar]))[:_MOST]


def missing(what: str, word: str, names: Iterable[str]) -> str:
    """The message for an object that is not there: `there is no node a11; the nearest: a1, a12`."""
    near = nearest(word, names)
    return f"there is no {what} {word}" + (f"; the nearest: {', '.join(near)}" if near else "")
