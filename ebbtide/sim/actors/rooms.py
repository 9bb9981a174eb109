"""What stands where: nodes with their pods as the scheduler and the autoscaler look at them.

The autoscaler asks about nodes that do not exist yet, so nothing here knows a node by its name alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ebbtide.sim.actors.amounts import Amounts, allocatable, requested

Raw = Mapping[str, Any]

_FINISHED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Room:
    """A node, what it offers, the unfinished pods on it, and what they leave free."""

    node: Raw
    offered: Amounts
    pods: tuple[Raw, ...]
    free: Amounts

    @classmethod
    def empty(cls, node: Raw) -> "Room":
        offered = allocatable(node)
        return cls(node, offered, (), offered)

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node["metadata"].get("labels") or {}

    def with_pod(self, pod: Raw) -> "Room":
        return replace(self, pods=(*self.pods, pod), free=self.free - requested(pod))


@dataclass(frozen=True, slots=True)
class View:
    """All that placing a pod depends on. Claims are keyed by (namespace, name), volumes by name.

    `wary` are the standing pods with required anti-affinity, each with its node's labels: few or none, but every
    placement has to ask them.
    """

    rooms: tuple[Room, ...]
    claims: Mapping[tuple[str, str], Raw]
    volumes: Mapping[str, Raw]
    wary: tuple[tuple[Mapping[str, str], Raw], ...]

    def placed(self, pod: Raw, node: str) -> "View":
        """The view with the pod standing on that node."""
        rooms = tuple(room.with_pod(pod) if room.name == node else room for room in self.rooms)
        wary = [(room.labels, pod) for room in rooms if room.name == node and required_terms(pod, "podAntiAffinity")]
        return replace(self, rooms=rooms, wary=(*self.wary, *wary))

    def extended(self, nodes: Iterable[Raw]) -> "View":
        """The view with further, empty nodes."""
        return replace(self, rooms=(*self.rooms, *map(Room.empty, nodes)))

    def without(self, names: Collection[str]) -> "View":
        """The view without these nodes and what stands on them."""
        rooms = tuple(room for room in self.rooms if room.name not in names)
        return replace(self, rooms=rooms, wary=_wary(rooms))


def view(nodes: Iterable[Raw], pods: Iterable[Raw], claims: Iterable[Raw] = (), volumes: Iterable[Raw] = ()) -> View:
    """The view of these objects; nodes keep their order."""
    standing: dict[str, list[Raw]] = {}
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name and not finished(pod):
            standing.setdefault(name, []).append(pod)
    rooms = tuple(_room(node, standing.get(node["metadata"]["name"], ())) for node in nodes)
    return View(
        rooms=rooms,
        claims={(claim["metadata"]["namespace"], claim["metadata"]["name"]): claim for claim in claims},
        volumes={volume["metadata"]["name"]: volume for volume in volumes},
        wary=_wary(rooms),
    )


def finished(pod: Raw) -> bool:
    return (pod.get("status") or {}).get("phase") in _FINISHED


def claim_names(pod: Raw) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        source = volume.get("persistentVolumeClaim")
        if source:
            yield source["claimName"]


def required_terms(pod: Raw, kind: str) -> tuple[Raw, ...]:
    """The required terms of `podAffinity` or `podAntiAffinity`."""
    return tuple(affinity_of(pod, kind).get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def affinity_of(pod: Raw, kind: str) -> Raw:
    """`spec.affinity.<kind>`, empty without one."""
    return (pod["spec"].get("affinity") or {}).get(kind) or {}


def _wary(rooms: Iterable[Room]) -> tuple[tuple[Mapping[str, str], Raw], ...]:
    standing = ((room.labels, pod) for room in rooms for pod in room.pods)
    return tuple((labels, pod) for labels, pod in standing if required_terms(pod, "podAntiAffinity"))


def _room(node: Raw, pods: Iterable[Raw]) -> Room:
    room = Room.empty(node)
    for pod in pods:
        room = room.with_pod(pod)
    return room
