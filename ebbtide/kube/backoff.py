"""Growing, jittered pauses: many clients that fail together must not come back together."""

import random


def jittered(seconds: float) -> float:
    """A random share of `seconds`, between one half and the whole."""
    return seconds * (0.5 + 0.5 * random.random())  # noqa: S311 - spreads load, guards no secret


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
