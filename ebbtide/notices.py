"""What AWS says about a Spot instance, and how that is put on its node.

Two programs hear of it: `ebbtide agent` on the node itself, and the reconciler from a queue. Both tell it in the same
way, so that a notice that is heard twice is told once:

    rebalance recommendation   the signal taint, whose value is the second of the recommendation, and an annotation that
                               says which one it was
    interruption notice        the signal taint, if there is none yet, and an annotation that says when the
                               instance goes

One patch, valid for one version of the node, carries both. A taint under that key that is there already is left as it
is, whoever set it; one that was taken away is not set again for the same recommendation. Nothing is ever removed here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.kube.patch import Operation, add, only_at, pointer
from ebbtide.model import NodeFacts, format_time, parse_time

# "two minutes before Amazon EC2 stops or terminates your Spot Instance" (EC2 user guide, Spot interruption notices).
WARNING_TIME: Final = 120.0
# Ten digits: what `reconciler.rebalance.signal` takes for a time.
_EARLIEST, _LATEST = 1_000_000_000, 9_999_999_999


class Kind(StrEnum):
    """What AWS says."""

    REBALANCE = "rebalance"
    INTERRUPTION = "interruption"


# Of the event on the node, whoever writes it.
REASONS: Final = {Kind.REBALANCE: "RebalanceRecommended", Kind.INTERRUPTION: "InterruptionNotice"}


@dataclass(frozen=True, slots=True)
class Notice:
    """`at` in epoch seconds: when the rebalance was recommended, or when the instance will be taken.

    `action` is what happens to the instance then (`terminate`, `stop`, `hibernate`), "" for a recommendation.
    """

    kind: Kind
    at: float
    action: str = ""

    @property
    def signalled_at(self) -> float:
        """When AWS knew, in epoch seconds."""
        return self.at if self.kind is Kind.REBALANCE else self.at - WARNING_TIME

    def repeats(self, other: "Notice | None") -> bool:
        """Whether it says nothing that the other has not said: of one kind, about the same two minutes."""
        return other is not None and self.kind is other.kind and abs(self.at - other.at) <= WARNING_TIME

    def __str__(self) -> str:
        if self.kind is Kind.REBALANCE:
            return f"rebalance recommended at {format_time(self.at)}"
        return f"{self.action or 'interruption'} at {format_time(self.at)}"


def notice_time(text: object) -> float:
    """Epoch seconds of a time as AWS writes it (RFC 3339). Raises ValueError for anything else.

    That includes times that no signal taint could carry.
    """
    time = parse_time(text)
    if time is None or not _EARLIEST <= time <= _LATEST:
        raise ValueError(f"{str(text)[:64]!r} is no time such as 2026-03-01T11:58:00Z")
    return time


def patch_for(node: NodeFacts, notice: Notice, signal_key: str) -> list[Operation]:
    """The JSON patch that tells of the notice on that version of the node; empty if there is nothing to tell."""
    news = list(_news(node, notice, signal_key))
    return [only_at(node.resource_version), *news] if news else []


def _news(node: NodeFacts, notice: Notice, signal_key: str) -> Iterator[Operation]:
    signalled = node.taint(signal_key) is not None
    if notice.kind is Kind.REBALANCE:
        told = parse_time(node.rebalance_notice)
        # While a signal stands, a later recommendation says nothing new.
        if told is not None and (signalled or told >= notice.at):
            return
        annotation = vocabulary.REBALANCE_NOTICE_ANNOTATION
    else:
        told = parse_time(node.interruption_notice)
        # An instance is taken once: whatever is said within these two minutes is about the same end.
        if told is not None and abs(told - notice.at) <= WARNING_TIME:
            return
        annotation = vocabulary.INTERRUPTION_NOTICE_ANNOTATION
    if not signalled:
        yield _taint(node, signal_key, notice.signalled_at)
    yield _annotate(node, annotation, format_time(int(notice.at)))


def _taint(node: NodeFacts, key: str, time: float) -> Operation:
    taint: dict[str, Any] = {"key": key, "value": str(int(time)), "effect": vocabulary.SIGNAL_TAINT_EFFECT}
    return add("/spec/taints/-", taint) if node.taints else add("/spec/taints", [taint])


def _annotate(node: NodeFacts, name: str, value: str) -> Operation:
    if node.has_annotations:
        return add(pointer("metadata", "annotations", name), value)
    return add("/metadata/annotations", {name: value})
