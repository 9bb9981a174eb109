"""A model of the Cluster Autoscaler: scans, grows one group at a time, removes what nobody needs.

What matters for a blocked zone is copied faithfully (`templates`, `growth`): whose node serves as a template, that the
last copy outlives the nodes it was made from, and that a restart forgets it. Every decision is kept with its reasons.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Never

from ebbtide.sim import budgets
from ebbtide.sim.actors.cloud import Cloud
from ebbtide.sim.actors.growth import Candidate, Expander, Growth, decide, still_waiting
from ebbtide.sim.actors.kubelet import condition, is_ready
from ebbtide.sim.actors.rooms import Room, View
from ebbtide.sim.actors.scheduler import current_view, is_pending
from ebbtide.sim.actors.shrinkage import goes_with_node, is_leaving, needed_for
from ebbtide.sim.actors.templates import NodeGroup, Template, template_for
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import NODES, PODS
from ebbtide.sim.refusals import TooManyRequests
from ebbtide.sim.storage import Storage, Write
from ebbtide.sim.stored import Object
from ebbtide.vocabulary import TO_BE_DELETED_TAINT_KEY

Raw = Mapping[str, Any]

_WRITES: Final = Write("cluster-autoscaler")
_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class Policy:
    """The autoscaler's flags, in seconds; the defaults are its own.

    `give_up_after` is `--max-node-provision-time`, `back_off` how long a group is left alone after that.
    """

    scan_interval: float = 10.0
    expander: Expander = Expander.LEAST_WASTE
    give_up_after: float = 900.0
    back_off: float = 300.0
    removes_nodes: bool = True
    unneeded_for: float = 600.0
    quiet_after_growth: float = 600.0


@dataclass(frozen=True, slots=True)
class Removal:
    """A node that is taken away because nobody needs it."""

    node: str
    group: str

    def __str__(self) -> str:
        return f"remove {self.node} of {self.group}: unneeded"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the autoscaler's diary; `at` is epoch seconds."""

    at: float
    decision: Growth | Removal


@dataclass(slots=True)
class _Memory:
    """What the program knows only in memory: a restart is a new one."""

    templates: dict[str, Template]
    unneeded: dict[str, float]
    ordered: dict[str, float]
    failed: dict[str, float]
    grown: float = float("-inf")
    last: Growth | None = None


class Autoscaler:
    """`diary` holds its latest decisions, the newest last; one that only repeats the one before is not entered."""

    def __init__(
        self,
        storage: Storage,
        cloud: Cloud,
        rng: Random,
        policy: Policy = Policy(),
    ) -> None:
        self.diary: deque[Entry] = deque(maxlen=_REMEMBERED)
        self._storage = storage
        self._cloud = cloud
        self._rng = rng
        self._policy = policy
        self._memory = _Memory({}, {}, {}, {})

    @property
    def cache(self) -> Mapping[str, Template]:
        """The templates it has copied last, by group name."""
        return self._memory.templates

    async def run(self) -> Never:
        self.restart()
        while True:
            self.scan()
            await asyncio.sleep(self._policy.scan_interval)

    def restart(self) -> None:
        """Forgets what is in memory only, and takes its marks off nodes, as at every start."""
        self._memory = _Memory({}, {}, {}, {})
        for node in list(self._storage.scan(NODES)):
            if is_leaving(node.body):
                self._storage.modify(NODES, node.name, "", _unmarked, _WRITES)

    def scan(self) -> None:
        """One round: refresh the templates, grow for pods that wait, else look for nodes that nobody needs."""
        now = self._storage.clock.now()
        around = current_view(self._storage)
        members = self._members(around.rooms)
        templates = self._templates(members, now)
        self._give_up_late_orders(now)
        if not self._grow(around, members, templates, now) and self._policy.removes_nodes:
            self._shrink(around, members, now)

    def _members(self, rooms: Iterable[Room]) -> dict[str, list[Raw]]:
        """The nodes of each group, in no particular order."""
        members: dict[str, list[Raw]] = {name: [] for name in self._cloud.groups}
        for room in rooms:
            group = self._cloud.group_of(room.node)
            if group is not None:
                members[group.name].append(room.node)
        for nodes in members.values():
            self._rng.shuffle(nodes)
        return members

    def _templates(self, members: Mapping[str, list[Raw]], now: float) -> dict[str, Template]:
        templates = {
            name: template_for(group, members[name], self._memory.templates, now)
            for name, group in self._cloud.groups.items()
        }
        self._memory.templates |= {name: template for name, template in templates.items() if template.live}
        return templates

    # --- growing ---------------------------------------------------------------------------------------------

    def _grow(
        self, around: View, members: Mapping[str, list[Raw]], templates: Mapping[str, Template], now: float
    ) -> bool:
        unschedulable = [pod.body for pod in self._storage.scan(PODS) if is_unschedulable(pod.body)]
        upcoming = [(templates[name], self._upcoming(name, members[name])) for name in self._cloud.groups]
        waiting, world = still_waiting(unschedulable, around, upcoming)
        if not waiting:
            self._memory.last = None
            return False
        candidates = [
            Candidate(group, templates[name], len(members[name]) + self._cloud.coming(name))
            for name, group in self._cloud.groups.items()
            if now >= self._memory.failed.get(name, 0.0)
        ]
        growth = decide(waiting, candidates, world, self._policy.expander, self._rng)
        if growth != self._memory.last:
            self.diary.append(Entry(now, growth))
        self._memory.last = growth
        if growth.grown:
            self._order(growth, now)
        return bool(growth.grown)

    def _order(self, growth: Growth, now: float) -> None:
        self._memory.grown = now
        self._memory.ordered[growth.grown] = now
        self._cloud.order(growth.grown, growth.nodes)

    def _upcoming(self, group: str, nodes: Iterable[Raw]) -> int:
        """Nodes that are ordered, and nodes that have come and never were Ready yet."""
        return self._cloud.coming(group) + sum(condition(node, "Ready") is None for node in nodes)

    def _give_up_late_orders(self, now: float) -> None:
        for name, since in list(self._memory.ordered.items()):
            if not self._cloud.coming(name):
                del self._memory.ordered[name]
            elif now - since > self._policy.give_up_after:
                self._cloud.give_up(name)
                self._memory.failed[name] = now + self._policy.back_off

    # --- shrinking -------------------------------------------------------------------------------------------

    def _shrink(self, around: View, members: Mapping[str, list[Raw]], now: float) -> None:
        self._finish_leaving(around)
        sizes = {name: sum(not is_leaving(node) for node in nodes) for name, nodes in members.items()}
        unneeded: dict[str, float] = {}
        for room in around.rooms:
            group = self._cloud.group_of(room.node)
            if group is None or is_leaving(room.node) or not is_ready(room.node) or self._needed(room, around):
                continue
            unneeded[room.name] = since = self._memory.unneeded.get(room.name, now)
            quiet = now - self._memory.grown >= self._policy.quiet_after_growth
            if quiet and now - since >= self._policy.unneeded_for and sizes[group.name] > group.smallest:
                sizes[group.name] -= 1
                self._mark(room, group, now)
        self._memory.unneeded = unneeded

    def _needed(self, room: Room, around: View) -> bool:
        leaving = {each.name for each in around.rooms if is_leaving(each.node)}
        return bool(needed_for(room, around.without(leaving)))

    def _mark(self, room: Room, group: NodeGroup, now: float) -> None:
        taint = {"key": TO_BE_DELETED_TAINT_KEY, "value": str(int(now)), "effect": "NoSchedule"}
        self._storage.modify(NODES, room.name, "", lambda node: _marked(node, taint), _WRITES)
        self.diary.append(Entry(now, Removal(room.name, group.name)))

    def _finish_leaving(self, around: View) -> None:
        """Asks the pods of marked nodes to go; takes away the nodes that have none left."""
        for room in around.rooms:
            if not is_leaving(room.node):
                continue
            if all(goes_with_node(pod) for pod in room.pods):
                self._cloud.terminate(room.name)
            for pod in room.pods:
                self._evict(pod)

    def _evict(self, pod: Raw) -> None:
        """Asks; a pod that its budget holds is asked again at the next scan."""
        metadata = pod["metadata"]
        if "deletionTimestamp" not in metadata and not goes_with_node(pod):
            with suppress(TooManyRequests):
                budgets.evict(self._storage, metadata["namespace"], metadata["name"], Deletion(uid=metadata["uid"]))


def is_unschedulable(pod: Raw) -> bool:
    """Whether the scheduler has said that it finds no node for this pod."""
    said = condition(pod, "PodScheduled")
    return is_pending(pod) and said is not None and said["status"] == "False" and said["reason"] == "Unschedulable"


def _marked(node: Object, taint: Object) -> Object:
    node.setdefault("spec", {}).setdefault("taints", []).append(taint)
    return node


def _unmarked(node: Object) -> Object:
    kept = [taint for taint in node["spec"]["taints"] if taint["key"] != TO_BE_DELETED_TAINT_KEY]
    spec = {key: value for key, value in node["spec"].items() if key != "taints"}
    return {**node, "spec": {**spec, "taints": kept} if kept else spec}
