"""Growing, jittered pauses: many clients that fail together must not come back together."""

import random
from typing import Final

# 2.0 ** 1024 is no float any more, and a row of failures has no end; 2.0 ** 64 ms are half a billion years.
_MOST_DOUBLINGS: Final = 64


def jittered(seconds: float) -> float:
    """A random share of `seconds`, between one half and the whole."""
    return seconds * (0.5 + 0.5 * random.random())  # noqa: S311 - spreads load, guards no secret


def doubled(first: float, n: int, most: float) -> float:
    """`first` seconds, doubled `n` (at least 0) times up to `most`; of any `n`, however long it goes on."""
    return min(first * 2.0 ** min(n, _MOST_DOUBLINGS), most)


class Backoff:
    """Pauses in seconds that double from `initial` to `maximum`, each jittered; `reset` after progress."""

    def __init__(self, initial: float, maximum: float) -> None:
        self._initial = initial
        self._maximum = maximum
        self._next = initial

    def next(self) -> float:
        pause, self._next = self._next, min(self._next * 2, self._maximum)
        return jittered(pause)

    def reset(self) -> None:
        self._next = self._initial
