"""What only this process knows of a cell: since when things are as they are, and who fights over a taint.

Lost at a restart, always in the safe direction: a hold-down counts anew (longer, never shorter), a cell is not taken
for `cached`, the first removal of a taint is not yet a fight, and a signal whose time stands nowhere on the cluster is
young again. Instants are monotonic seconds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.backoff import doubled
from ebbtide.model import Cell, NodeFacts
from reconciler.rebalance.plan import Change, NodeWrite, Plan, Wish, is_prevented
from reconciler.rebalance.signal import first_seen
from reconciler.rebalance.verdict import State, Streak, Verdict, is_remembered

# Two removals of our taint from a node within this time are a fight, not an accident.
FIGHT_WINDOW = 60.0
# 5, 10, 20, 40, 60 s: three writes in the first minute of a fight, one a minute for as long as it lasts.
_FIRST_RESTRAINT, _LONGEST_RESTRAINT = 5.0, 60.0
# What has refused an annotation may have been a moment's fault, or a policy that is mended: 10, 20, 40, 80, 120 s.
_FIRST_NOTE_AGAIN, _LONGEST_NOTE_AGAIN = 10.0, 120.0


@dataclass(slots=True)
class Fight:
    """Removals of our taint from one node by somebody else."""

    removed_at: float
    rounds: int = 0
    restore_at: float | None = None

    @property
    def restraint(self) -> float:
        """Seconds to wait before the taint is set again."""
        return 0.0 if self.rounds == 0 else doubled(_FIRST_RESTRAINT, self.rounds - 1, _LONGEST_RESTRAINT)

    def removed(self, monotonic: float) -> None:
        """Counts one more removal; a long peace makes it a first one again."""
        in_a_row = monotonic - self.removed_at <= FIGHT_WINDOW + self.restraint
        self.rounds = self.rounds + 1 if in_a_row else 0
        self.removed_at = monotonic
        self.restore_at = monotonic + self.restraint


@dataclass(frozen=True, slots=True)
class RefusedNote:
    """An annotation that the API server refused: nobody tries again before `until`."""

    pause: float
    until: float


@dataclass(slots=True)
class CellMemory:
    """One cell's share.

    `inherited` is the state that an earlier leader has told of, as its marks say. By node UID: `seen` since when its
    signal has been seen, `unnoted` whether that could not be noted on it.
    """

    quiet_since: float | None = None
    incomplete_since: float | None = None
    blocked_since: float | None = None
    remembered: bool = False
    left_tainted: bool = False
    last_node: NodeFacts | None = None
    carried: frozenset[str] = frozenset()
    fights: dict[str, Fight] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    unnoted: dict[str, RefusedNote] = field(default_factory=dict)
    wish: Wish | None = None
    inherited: State | None = None
    looked: bool = False

    def look(self, nodes: Iterable[NodeFacts], signalled: bool, rules: NodeRebalance, monotonic: float) -> None:
        """Notes what is new at the beginning of a look, before anything is decided."""
        if signalled:
            self.quiet_since = None
        elif self.quiet_since is None:
            self.quiet_since = monotonic
        live = {node.uid: node for node in nodes if not node.deleting}
        if not self.looked:
            self.inherited, self.looked = told_by_marks(live.values(), rules), True
        for uid in self.carried & live.keys():
            if not is_prevented(live[uid], rules):
                self._removed(uid, monotonic)
        self.fights = {uid: fight for uid, fight in self.fights.items() if uid in live}
        key = rules.rebalance_signal_taint_key
        self.seen = {uid: self.seen.get(uid, monotonic) for uid, node in live.items() if node.taint(key) is not None}
        self.unnoted = {uid: refused for uid, refused in self.unnoted.items() if uid in self.seen}

    def _removed(self, uid: str, monotonic: float) -> None:
        fight = self.fights.get(uid)
        if fight is None:
            self.fights[uid] = Fight(removed_at=monotonic, restore_at=monotonic)
        elif fight.restore_at is None:
            fight.removed(monotonic)

    def refused(self, writes: Iterable[NodeWrite], monotonic: float) -> None:
        """Notes writes that the API server will not have: without the annotation it may have the next ones."""
        for write in writes:
            if write.first_seen is Change.SET:
                before = self.unnoted.get(write.node.uid)
                pause = _FIRST_NOTE_AGAIN if before is None else min(2 * before.pause, _LONGEST_NOTE_AGAIN)
                self.unnoted[write.node.uid] = RefusedNote(pause, monotonic + pause)

    def restrained(self, nodes: Iterable[NodeFacts], monotonic: float) -> dict[str, float]:
        """By node name, the seconds for which its taint is not set again."""
        waits = {n.name: (self.fights[n.uid].restore_at or 0.0) - monotonic for n in nodes if n.uid in self.fights}
        return {name: wait for name, wait in waits.items() if wait > 0}

    def restored(self, uid: str) -> Fight | None:
        """Notes that the taint was set on the node; the fight if that put back one that somebody had removed."""
        fight = self.fights.get(uid)
        if fight is None or fight.restore_at is None:
            return None
        fight.restore_at = None
        return fight

    def streak(self, monotonic: float) -> Streak:
        since = self.blocked_since
        return Streak(None if since is None else monotonic - since, self.remembered)

    def acted(self, plan: Plan, nodes: tuple[NodeFacts, ...], complete: bool, rules: NodeRebalance, now: float) -> None:
        """Notes how the cell stands after the plan was carried out; `now` is monotonic."""
        self.wish = plan.wish
        live = [node for node in nodes if not node.deleting]
        self.carried = frozenset(node.uid for node in live if is_prevented(node, rules))
        if not plan.wish.blocks:
            for fight in self.fights.values():
                fight.restore_at = None
        if complete or not plan.wish.blocks:
            self.incomplete_since = None
        elif self.incomplete_since is None:
            self.incomplete_since = now
        if live:
            self.left_tainted = bool(self.carried)
            self.last_node = live[0]

    def emptied(self, nodes: Iterable[NodeFacts], rules: NodeRebalance, monotonic: float) -> None:
        """Notes that the cell has no live node: the streak ends, and only what the autoscaler has cached goes on.

        `nodes` are those being deleted, of which it may still take a clean one as template.
        """
        clean = any(not is_prevented(node, rules) for node in nodes)
        self.remembered = not clean and is_remembered(self.streak(monotonic), rules)
        self.blocked_since = None

    def judged(self, verdict: Verdict, monotonic: float) -> None:
        """Notes the verdict, which the next one depends on."""
        self.remembered = verdict.remembered
        if verdict.state is not State.BLOCKED:
            self.blocked_since = None
        elif self.blocked_since is None:
            self.blocked_since = monotonic


def told_by_marks(live: Iterable[NodeFacts], rules: NodeRebalance) -> State | None:
    """What the marks on a cell's live nodes say that people were told of it; None if they say nothing.

    A half tainted cell may never have been reported, so it says nothing.
    """
    nodes = tuple(live)
    if nodes and all(is_prevented(node, rules) for node in nodes):
        return State.BLOCKED
    return State.WAITING if any(first_seen(node) is not None for node in nodes) else None


class Memory:
    """All cells' shares."""

    def __init__(self) -> None:
        self._cells: dict[Cell, CellMemory] = {}

    def of(self, cell: Cell) -> CellMemory:
        return self._cells.setdefault(cell, CellMemory())

    def known(self, cell: Cell) -> CellMemory:
        """The cell's share, an empty one if there is none (and none is kept)."""
        return self._cells.get(cell) or CellMemory()

    def forget(self, cell: Cell) -> None:
        self._cells.pop(cell, None)
