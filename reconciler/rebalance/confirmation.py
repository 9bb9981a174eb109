"""Whether a node that is emptied is still the one that was meant.

Its pods are watched by its name, and an eviction names the pod alone. So where the watch of nodes lags behind, the pods
of a node that has taken the name over, or whose signal has gone, would be asked to go. A read of the node says what it
is. It stays true as long as the stream of the watch that was open when it began is open, talks, and no further pod has
appeared; what was read while no stream was open is good for one round of evictions.

Pure: instants and durations are monotonic seconds.
"""

from dataclasses import dataclass

from ebbtide.kube.backoff import doubled
from ebbtide.model import NodeFacts
from reconciler.rebalance.plan import soonest

# The API server speaks at least once a minute (bookmarks); a stream that does not may have lost its other end.
SILENT = 90.0
# Without an answer for so long pods go all the same, as they do from a zone that cannot be tainted.
UNANSWERED = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0


@dataclass(frozen=True, slots=True)
class NodeWatch:
    """The watch of nodes at a moment: the number of its open stream, None without one, and how long it is silent."""

    stream: int | None
    silent_for: float


@dataclass(frozen=True, slots=True)
class _Question:
    """What was known when a question was sent."""

    newcomers: int
    stream: int | None


@dataclass(slots=True)
class Confirmation:
    """What is known of one node; nothing is until the first answer."""

    _newcomers: int = 0
    _asked: _Question | None = None
    _confirmed: _Question | None = None
    _fresh: bool = False
    _failures: int = 0
    _ask_at: float = 0.0
    _unanswered_since: float | None = None

    def newcomer(self) -> None:
        """A pod has appeared; it may belong to another node of the same name."""
        self._newcomers += 1

    def is_sure(self, watched: NodeWatch, now: float) -> bool:
        """Whether pods may be asked to go."""
        return self.is_confirmed(watched) or self._is_overdue(now)

    def is_confirmed(self, watched: NodeWatch) -> bool:
        """Whether there is no need for a further question."""
        known = self._confirmed
        if known is None or known.newcomers != self._newcomers:
            return False
        followed = known.stream is not None and known.stream == watched.stream and watched.silent_for <= SILENT
        return self._fresh or followed

    def _is_overdue(self, now: float) -> bool:
        return self._unanswered_since is not None and now - self._unanswered_since >= UNANSWERED

    def may_ask(self, now: float) -> bool:
        """Whether it is time for a question: none is under way, and the last one is long enough ago."""
        return self._asked is None and now >= self._ask_at

    def next_in(self, now: float) -> float | None:
        """Seconds until something changes by itself, None if only an answer can change it."""
        again = None if self._asked is not None else self._ask_at - now
        overdue = None if self._unanswered_since is None else self._unanswered_since + UNANSWERED - now
        return soonest(wait for wait in (again, overdue) if wait is not None and wait > 0)

    def ask(self, watched: NodeWatch, now: float) -> None:
        """A question is sent."""
        self._asked = _Question(self._newcomers, watched.stream)
        if self._unanswered_since is None:
            self._unanswered_since = now

    def confirmed(self) -> None:
        """The answer: it is the same node, signalled and alive."""
        self._confirmed, self._fresh, self._asked = self._asked, True, None
        self._failures, self._unanswered_since = 0, None

    def denied(self, now: float) -> None:
        """The answer: it is not, or not to be emptied; the watch will say so, too."""
        self._confirmed, self._unanswered_since = None, None
        self._pause(now)

    def unanswered(self, now: float) -> None:
        """The question has failed."""
        self._pause(now)

    def spend(self) -> None:
        """A round of evictions is over."""
        self._fresh = False

    def _pause(self, now: float) -> None:
        self._asked = None
        self._ask_at = now + doubled(_FIRST_PAUSE, self._failures, _LONGEST_PAUSE)
        self._failures += 1


def is_still(meant: NodeFacts, found: NodeFacts, signal_key: str) -> bool:
    """Whether a node that was read is the one that is emptied, and nothing on it speaks against that."""
    same = found.uid == meant.uid and not found.deleting
    return same and found.taint(signal_key) is not None and not found.ignored
