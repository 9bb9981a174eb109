"""How many bytes of large bodies are held at once, and who waits until there is room for one more.

Room is given in the order in which it was asked for, for the whole of a body or not at all: of bodies that all had a
part of theirs none might ever be complete.
"""

from collections import deque
from collections.abc import Callable


class Claim:
    """Room for a body of `size` bytes: `held`, or waited for until `granted` is called."""

    __slots__ = ("granted", "held", "size")

    def __init__(self, size: int, granted: Callable[[], None], *, held: bool) -> None:
        self.size = size
        self.granted = granted
        self.held = held


class Budget:
    """Room for `size` bytes, for which `most_waiting` may wait. No claim may be larger: it would wait for ever."""

    def __init__(self, size: int, most_waiting: int) -> None:
        self._free = size
        self._most_waiting = most_waiting
        self._waiting = deque[Claim]()

    def claim(self, size: int, granted: Callable[[], None]) -> Claim | None:
        """Held at once if there is room and nobody has come before; None if too many wait."""
        held = not self._waiting and size <= self._free
        if not held and len(self._waiting) >= self._most_waiting:
            return None
        claim = Claim(size, granted, held=held)
        if held:
            self._free -= size
        else:
            self._waiting.append(claim)
        return claim

    def release(self, claim: Claim) -> None:
        """Of one that is held, or waits. It may be somebody else's turn then."""
        if claim.held:
            self._free += claim.size
        else:
            self._waiting.remove(claim)
        while self._waiting and self._waiting[0].size <= self._free:
            first = self._waiting.popleft()
            self._free -= first.size
            first.held = True
            first.granted()
