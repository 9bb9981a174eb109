"""At most one write per node, and one Event of a kind per object, for each change of what decides about them.

A change is whatever alters the picture of a cell but our own marks: somebody else creates, deletes or writes one of its
nodes (of the whole group, where `min-open-zones` makes its cells depend on each other), another replica leads, a
clock jumps. Each change allows one write of each of the cell's nodes, beside one that was under way in that moment.
What else may lead to one: a limit of age that a signal passes, the end of a hold-down, a pause after another program
took our taint off, and a write that has failed.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ebbtide.sim.kinds import NODES
from ebbtide.sim.stored import Object
from tests.simulation.draws import is_signalled
from tests.simulation.facts import SLACK
from tests.simulation.oracle import CellName, carriers, cell_of, cells, signal_time
from tests.simulation.stage import Stage
from tests.simulation.wiretap import EVENT_PATH, NODE_PATH, Change, Request

# Seconds within which what had to wait is done after a pause: a taint that another program takes off is put back, and
# what the server has refused is tried again.
PAUSES = 150.0
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class _Node:
    """One node, by UID: which of our writes were stored, when one failed, and when somebody took our taint off."""

    stored: "list[_Moment]" = field(default_factory=list)
    failed_at: float = float("-inf")
    stripped_at: float = float("-inf")


@dataclass(frozen=True, slots=True)
class _Moment:
    """`number` tells moments of equal time apart."""

    number: int
    time: float


class Changes:
    """Counts our writes between changes; `broken` has what was too much."""

    def __init__(self, stage: Stage) -> None:
        self.broken: list[str] = []
        self._stage = stage
        self._number = 0
        self._moments: dict[CellName, list[_Moment]] = defaultdict(list)
        # What changes the state of a cell, if not what is written: whether writes of its nodes succeed.
        self._failures: dict[CellName, list[_Moment]] = defaultdict(list)
        self._everywhere = _Moment(0, 0.0)
        self._nodes: dict[str, _Node] = defaultdict(_Node)
        self._told: dict[tuple[str, str, str, str], int] = {}
        self._leader = ""
        stage.storage.listen(lambda _: self._node_changed(stage.journal.changes[-1]), NODES)

    def everywhere(self) -> None:
        """All may look different from now on: another leader, another clock."""
        self._everywhere = self._now()

    # --- requests ----------------------------------------------------------------------------------------------

    def arrived(self, request: Request) -> None:
        if request.who != self._leader:
            self._leader = request.who
            self.everywhere()
        if request.matches("POST", EVENT_PATH):
            self._tell(request)

    def answered(self, request: Request) -> None:
        node = self._stage.storage.peek(NODES, request.node) if request.matches("PATCH", NODE_PATH) else None
        if node is not None and request.status != 200:
            now, cell = self._now(), cell_of(node.body)
            self._nodes[node.uid].failed_at = now.time
            if cell is not None:
                self._failures[cell].append(now)

    def _tell(self, request: Request) -> None:
        told = request.document
        about, reason = told["regarding"], told["reason"]
        key = request.who, reason, about.get("uid", ""), _NUMBER.sub("", told["note"])
        before = self._told.get(key)
        if before is not None and before > self._last_of_group(about).number:
            self.broken.append(
                f"{request.time:.3f}: {reason} is told again of {about['name']}, and nothing has changed"
            )
        self._told[key] = self._now().number

    def _last_of_group(self, about: Object) -> _Moment:
        node = self._stage.storage.peek(NODES, about["name"]) if about["kind"] == "Node" else None
        group = None if node is None else (cell_of(node.body) or ("", ""))[0]
        both = (*self._moments.items(), *self._failures.items())
        moments = (each for cell, listed in both if cell[0] == group for each in listed)
        return max([self._everywhere, *moments], key=lambda moment: moment.number)

    # --- what is stored ----------------------------------------------------------------------------------------

    def _node_changed(self, change: Change) -> None:
        uid = change.after["metadata"]["uid"]
        found = {cell_of(body) for body in (change.before, change.after) if body}
        if change.cause is None:
            now = self._now()
            if change.before and carriers([change.before]) and not carriers([change.after]):
                self._nodes[uid].stripped_at = now.time
            for cell in found:
                if cell is not None:
                    self._moments[cell].append(now)
            return
        self._nodes[uid].stored.append(self._now())
        cell = cell_of(change.after)
        if cell is not None:
            self._count(change, change.cause, cell)

    def _count(self, change: Change, cause: Request, cell: CellName) -> None:
        node = self._nodes[change.after["metadata"]["uid"]]
        moments = sorted(self._concerning(cell), key=lambda moment: moment.number)
        last = moments[-1]
        at_once = sum(last.time - moment.time <= SLACK for moment in moments[:-1])
        written = [moment for moment in node.stored if moment.number > last.number]
        under_way = any(moment.time - last.time <= SLACK for moment in written)
        allowed = 1 + at_once + under_way + sum(self._reasons(change, cause, cell, last))
        if len(written) > allowed:
            what = f"{change.name} is written {len(written)} times"
            self.broken.append(f"{change.time:.3f}: {what}, since {last.time:.3f} there are reasons for {allowed}")

    def _concerning(self, cell: CellName) -> Iterator[_Moment]:
        yield self._everywhere
        together = self._stage.settings.node_rebalance.min_open_zones > 0
        for other, moments in self._moments.items():
            if other == cell or (together and other[0] == cell[0]):
                yield from moments

    def _reasons(self, change: Change, cause: Request, cell: CellName, last: _Moment) -> Iterator[bool]:
        """Whether there was a further reason to write since the last change."""
        node = self._nodes[change.after["metadata"]["uid"]]
        rules = self._stage.settings.node_rebalance
        nodes = cells(self._stage.storage).get(cell, [])
        yield any(self._has_become_old(each, cause.who, last.time) for each in nodes if is_signalled(each))
        yield rules.hold_down > 0 and not any(map(is_signalled, nodes))
        yield change.time - node.stripped_at < PAUSES
        yield change.time - node.failed_at < PAUSES

    def _has_become_old(self, node: Object, who: str, since: float) -> bool:
        """Whether the signal has passed the limit since then, by that replica's clock."""
        signalled = signal_time(node)
        (clock,) = (each.clock for each in self._stage.replicas if each.name == who)
        passed = self._stage.time - since
        limit = self._stage.settings.node_rebalance.max_rebalance_signal_time
        return signalled is not None and -1.0 <= clock.now() - signalled - limit <= passed + 1.0

    def _now(self) -> _Moment:
        self._number += 1
        return _Moment(self._number, self._stage.time)
