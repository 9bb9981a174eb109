"""How old a rebalance signal is.

The usual writer of the signal taint gives it neither a time nor a unique value, so the age comes from the first of
these that exists: a ten-digit epoch as the taint's value (what `ebbtide agent` writes), the taint's `timeAdded`, our
own annotation on the node, and otherwise this very moment, which then has to be written down as that annotation.
Where the API server refuses that for good, the age is what the leader remembers.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.model import NodeFacts, parse_time

# Ten digits are the epoch seconds of 2001 to 2286. Milliseconds, counters, hashes and booleans are no times.
_EPOCH_SECONDS = re.compile(r"[1-9][0-9]{9}")
# Seconds. Machines that are kept on time differ by far less.
_CLOCKS_MAY_DIFFER = 5.0


class Source(StrEnum):
    """Where a signal's time was read."""

    TAINT_VALUE = "taint-value"
    TIME_ADDED = "time-added"
    ANNOTATION = "annotation"
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Signal:
    """A rebalance signal on a live node; `since` in epoch seconds."""

    node: NodeFacts
    since: float
    source: Source

    def age(self, now: float) -> float:
        """Seconds since the signal; a time in the future counts as zero."""
        return max(0.0, now - self.since)

    def is_ahead(self, now: float) -> bool:
        """Whether its time lies in the future by more than clocks that are kept on time differ."""
        return self.since - now > _CLOCKS_MAY_DIFFER

    @property
    def certain(self) -> bool:
        """Whether AWS has said that the instance is taken: then there is no false alarm to wait out."""
        taken_at = parse_time(self.node.interruption_notice)
        return taken_at is not None and taken_at >= self.node.created


def signal_of(node: NodeFacts, taint_key: str, now: float, seen_for: float = 0.0) -> Signal | None:
    """The signal that the node carries, None when it carries none or is being deleted.

    `seen_for` is for how many seconds this process has seen it; that counts where nothing on the node says its time.
    """
    taint = node.taint(taint_key)
    if taint is None or node.deleting:
        return None
    stated = epoch_seconds(taint.value)
    if stated is not None:
        return Signal(node, stated, Source.TAINT_VALUE)
    if taint.time_added is not None:
        return Signal(node, taint.time_added, Source.TIME_ADDED)
    remembered = first_seen(node)
    if remembered is not None:
        return Signal(node, remembered, Source.ANNOTATION)
    # With our clock behind the API server's, "now" may be before the node was there.
    return Signal(node, max(now - seen_for, node.created), Source.NOW)


def first_seen(node: NodeFacts) -> float | None:
    """Our annotation's time; None if absent, unreadable, or left by an earlier node of the same name."""
    time = parse_time(node.first_seen)
    return None if time is None or time < node.created else time


def epoch_seconds(value: str) -> float | None:
    """The taint value as epoch seconds, None if it is not exactly ten digits."""
    return float(value) if _EPOCH_SECONDS.fullmatch(value) else None
