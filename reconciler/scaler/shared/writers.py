"""Who else writes the pool's size: a person once is obeyed as far as the rules let it, a program is a rival. No I/O.

Instants are monotonic seconds.
"""

from typing import Final

from ebbtide.kube.backoff import doubled

# Two changes that far apart are one fight.
REMEMBERED: Final = 1800.0
# A rival's next write is not answered sooner than this, and twice as late each time up to the longest.
FIRST_PAUSE: Final = 60.0
LONGEST_PAUSE: Final = 600.0


class Writers:
    """Tells our own changes of the number of replicas from those of others."""

    def __init__(self) -> None:
        self._expected: frozenset[int] | None = None
        self._foreign: list[float] = []
        self._last_write = float("-inf")

    def writing(self, before: int, after: int) -> None:
        """We are about to write; until the outcome is known either number is ours."""
        self._expected = frozenset((before, after))

    def written(self, now: float) -> None:
        """It was accepted."""
        self._last_write = now

    def observed(self, replicas: int, now: float) -> bool:
        """The set says so many; whether somebody else has changed it since we last looked."""
        foreign = self._expected is not None and replicas not in self._expected
        self._expected = frozenset((replicas,))
        if foreign:
            self._foreign.append(now)
        self._foreign = [at for at in self._foreign if now - at < REMEMBERED]
        return foreign

    @property
    def conflicting(self) -> int:
        """How often somebody else changed it lately, 0 when that happened only once."""
        return len(self._foreign) if len(self._foreign) > 1 else 0

    def pause(self, now: float) -> float:
        """Seconds until the next write that only restores what somebody else has changed."""
        if not self.conflicting:
            return 0.0
        pause = doubled(FIRST_PAUSE, self.conflicting - 2, LONGEST_PAUSE)
        return max(0.0, self._last_write + pause - now)
