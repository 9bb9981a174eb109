"""What a decision about a cell is made from, and what it says.

Times are epoch seconds, durations seconds. The values print well: logs, status, dry run and explanations show them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ebbtide import vocabulary
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import Cell, NodeFacts
from reconciler.rebalance.signal import Signal, signal_of


class Wish(StrEnum):
    """What a cell should be."""

    OPEN = "open"
    WAIT = "wait"
    KEEP = "keep"
    BLOCK = "block"

    @property
    def blocks(self) -> bool:
        """Whether every live node of the cell has to carry the prevent taint."""
        return self in (Wish.KEEP, Wish.BLOCK)


class Change(StrEnum):
    """What a write does to one of our marks on a node."""

    LEAVE = "leave"
    SET = "set"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class CellFacts:
    """A cell as it stands.

    `nodes` are all of its nodes, those being deleted too. The durations are what only this process has watched:
    `quiet_for` since the last signal went (0 while there is one), `incomplete_for` since the cell should have been
    fully tainted and was not (0 when it is). The rest is by node name: `restrained` for how long its taint is not set
    again, because another program keeps removing it; `seen_for` how long its signal has been seen; `unnoted` for how
    long nobody tries again to note that on it, because the API server has refused it (0 and less: now).
    """

    cell: Cell
    nodes: tuple[NodeFacts, ...]
    quiet_for: float = 0.0
    incomplete_for: float = 0.0
    restrained: Mapping[str, float] = field(default_factory=dict)
    seen_for: Mapping[str, float] = field(default_factory=dict)
    unnoted: Mapping[str, float] = field(default_factory=dict)

    @property
    def live(self) -> tuple[NodeFacts, ...]:
        return tuple(node for node in self.nodes if not node.deleting)

    def signal_of(self, node: NodeFacts, rules: NodeRebalance, now: float) -> Signal | None:
        """The signal of one of the nodes."""
        return signal_of(node, rules.rebalance_signal_taint_key, now, self.seen_for.get(node.name, 0.0))


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """All cells of one node group, by zone."""

    group: str
    cells: Mapping[str, CellFacts]


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """One request to one node: everything that changes on it. Valid only for that resourceVersion.

    `seen_at` is the time that is noted with `first_seen`, None for that of the write.
    """

    node: NodeFacts
    prevent: Change
    first_seen: Change
    signalled: bool
    seen_at: float | None = None


@dataclass(frozen=True, slots=True)
class Eviction:
    """Pods of `node` are to be evicted; `at_once` even though the cell could not be fully tainted for long."""

    node: NodeFacts
    since: float
    at_once: bool


class Deed(StrEnum):
    """Something that is done; the values are its words, `{}` for the name of what it is done to."""

    TAINT = "taint node {}"
    NOTE_SIGNAL = "note on node {} when its signal was first seen"
    EMPTY_NODE = "evict the pods of node {}"
    EVICT = "evict pod {}"
    READMIT = "admit pod {} again"
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Something that would have been done to the node or pod of that name, and why it is not."""

    deed: Deed
    name: str
    reason: str

    @property
    def what(self) -> str:
        """The deed in words."""
        return self.deed.format(self.name)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with a cell now; `look_again_in` seconds even if nothing happens, None if only events matter."""

    cell: Cell
    wish: Wish
    reason: str
    signals: tuple[Signal, ...]
    writes: tuple[NodeWrite, ...]
    evict: Eviction | None
    held_back: tuple[HeldBack, ...]
    look_again_in: float | None

    @property
    def taint(self) -> tuple[str, ...]:
        return tuple(write.node.name for write in self.writes if write.prevent is Change.SET)

    @property
    def untaint(self) -> tuple[str, ...]:
        return tuple(write.node.name for write in self.writes if write.prevent is Change.REMOVE)


def is_prevented(node: NodeFacts, rules: NodeRebalance) -> bool:
    """Whether the node carries our taint. The same key with another effect is somebody else's."""
    return node.taint(rules.prevent_ca_scale_up_taint_key, vocabulary.PREVENT_TAINT_EFFECT) is not None


def soonest(waits: Iterable[float | None]) -> float | None:
    """The shortest of several waits, None if there is nothing to wait for."""
    return min((wait for wait in waits if wait is not None), default=None)
