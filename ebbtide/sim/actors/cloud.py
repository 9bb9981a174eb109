"""The cloud behind the autoscaler: groups of instances that are ordered, arrive as nodes after a while, and go."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from ebbtide.sim.actors.kubelet import NOT_READY
from ebbtide.sim.actors.templates import NodeGroup, Raw
from ebbtide.sim.kinds import NODES
from ebbtide.sim.storage import NAME_LETTERS, Storage, Write
from ebbtide.sim.stored import Object

_REGISTRATION: Final = Write("kubelet", keep_status=True)
_LABELLING: Final = Write("cloud-controller-manager")


@dataclass(frozen=True, slots=True)
class Delivery:
    """Seconds: `delay` from the order to the Node object, `labels_after` from there until it has its group's labels."""

    delay: float = 60.0
    labels_after: float = 0.0


class Cloud:
    """Scaling groups with their instances. Which group an instance belongs to is the cloud's knowledge, not a label's.

    A node that the cloud did not deliver itself counts to the group whose labels it carries.
    """

    def __init__(
        self,
        storage: Storage,
        groups: Sequence[NodeGroup],
        rng: Random,
        delivery: Delivery = Delivery(),
    ) -> None:
        self.groups = {group.name: group for group in groups}
        self._storage = storage
        self._rng = rng
        self._delivery = delivery
        self._delivered: dict[str, str] = {}
        self._ordered = dict.fromkeys(self.groups, 0)
        self._exhausted: set[str] = set()
        self._timers: set[asyncio.TimerHandle] = set()

    def order(self, group: str, count: int) -> None:
        """Asks for more instances; their nodes appear after the delay, while the group has capacity."""
        self._ordered[group] += count
        for _ in range(count):
            self._later(self._delivery.delay, lambda: self._deliver(group))

    def give_up(self, group: str) -> None:
        """Withdraws what is ordered and has not arrived."""
        self._ordered[group] = 0

    def exhaust(self, group: str) -> None:
        """From now on the group has no spot capacity: orders stay open."""
        self._exhausted.add(group)

    def coming(self, group: str) -> int:
        """How many instances are ordered and have no node yet."""
        return self._ordered[group]

    def group_of(self, node: Raw) -> NodeGroup | None:
        """The group that the node's instance belongs to."""
        delivered = self._delivered.get((node.get("spec") or {}).get("providerID") or "")
        if delivered is not None:
            return self.groups[delivered]
        return next((group for group in self.groups.values() if group.wears(node)), None)

    def terminate(self, node: str) -> None:
        """Takes the instance away; its node is gone with it, its pods are orphans."""
        if self._storage.peek(NODES, node) is not None:
            self._storage.delete(NODES, node)

    def close(self) -> None:
        """Nothing more arrives."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _deliver(self, name: str) -> None:
        if name in self._exhausted or not self._ordered[name]:
            return
        self._ordered[name] -= 1
        node = self._node(self.groups[name])
        self._delivered[node["spec"]["providerID"]] = name
        late = self._delivery.labels_after > 0
        created = self._storage.create(NODES, _without_labels(node) if late else node, _REGISTRATION)
        if late:
            uid = created["metadata"]["uid"]
            self._later(self._delivery.labels_after, lambda: self._label(uid, node))

    def _label(self, uid: str, node: Object) -> None:
        metadata = node["metadata"]
        live = self._storage.peek(NODES, metadata["name"])
        if live is not None and live.uid == uid:
            self._storage.modify(NODES, live.name, "", lambda body: _with_labels(body, metadata["labels"]), _LABELLING)

    def _node(self, group: NodeGroup) -> Object:
        name = f"{group.name}-{''.join(self._rng.choices(NAME_LETTERS, k=5))}"
        offers = dict(group.offers)
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **group.labels}
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "providerID": f"aws:///{group.zone}/i-{self._rng.getrandbits(68):017x}",
                "taints": [*map(dict, group.taints), {"key": NOT_READY, "effect": "NoSchedule"}],
            },
            "status": {"capacity": offers, "allocatable": offers},
        }

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            what()

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.add(timer)


def _without_labels(node: Object) -> Object:
    hostname = {"kubernetes.io/hostname": node["metadata"]["name"]}
    return {**node, "metadata": {**node["metadata"], "labels": hostname}}


def _with_labels(node: Object, labels: dict[str, str]) -> Object:
    node["metadata"]["labels"] = {**(node["metadata"].get("labels") or {}), **labels}
    return node
