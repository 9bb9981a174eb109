"""What becomes of a message: facts in, verdict out."""

from dataclasses import dataclass
from enum import StrEnum

from ebbtide.kube.patch import Operation
from ebbtide.model import NodeFacts
from ebbtide.notices import Notice, patch_for


class Result(StrEnum):
    """What became of a message. The first three are done with and deleted, the others stay in the queue.

    What stays comes again after the queue's visibility timeout; how often, and where to then, is the queue's own rule.
    """

    STORED = "stored"
    KNOWN = "known"
    LEAVING = "leaving"
    UNKNOWN_INSTANCE = "unknown-instance"
    MALFORMED = "malformed"
    OTHER_KIND = "other-kind"
    FAILED = "failed"

    @property
    def done(self) -> bool:
        return self in (Result.STORED, Result.KNOWN, Result.LEAVING)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A patch of the node, to be stored before the message may go; without one the `result` is known already."""

    result: Result
    patch: tuple[Operation, ...] = ()


def decide(node: NodeFacts | None, notice: Notice, signal_key: str) -> Verdict:
    """About a notice for the instance of that node; None is an instance that no node has (yet)."""
    if node is None:
        return Verdict(Result.UNKNOWN_INSTANCE)
    if node.deleting:
        return Verdict(Result.LEAVING)
    patch = patch_for(node, notice, signal_key)
    return Verdict(Result.STORED, tuple(patch)) if patch else Verdict(Result.KNOWN)
