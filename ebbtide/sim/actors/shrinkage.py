"""Which nodes the Cluster Autoscaler could do without, and why not the others: its scale-down as a pure function."""

from collections.abc import Mapping
from typing import Any, Final

from ebbtide.sim.actors.amounts import Amounts, requested
from ebbtide.sim.actors.predicates import refusals
from ebbtide.sim.actors.rooms import Room, View
from ebbtide.vocabulary import MIRROR_POD_ANNOTATION, TO_BE_DELETED_TAINT_KEY

Raw = Mapping[str, Any]

# `--scale-down-utilization-threshold`.
BUSY_FROM: Final = 0.5

_DISABLED_ANNOTATION: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_SAFE_TO_EVICT_ANNOTATION: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def needed_for(room: Room, around: View) -> str:
    """Why the node has to stay; empty when its pods would find room on the others."""
    if _annotation(room.node, _DISABLED_ANNOTATION) == "true":
        return "scale-down is disabled on it"
    to_move = [pod for pod in room.pods if not goes_with_node(pod) and "deletionTimestamp" not in pod["metadata"]]
    if _utilization(room, to_move) >= BUSY_FROM:
        return "it is in use"
    held = next((pod for pod in to_move if not _may_be_moved(pod)), None)
    if held is not None:
        return f"pod {held['metadata']['name']} must not be moved"
    return _without_a_place(room, to_move, around)


def is_leaving(node: Raw) -> bool:
    """Whether the autoscaler has marked the node for removal."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return any(taint["key"] == TO_BE_DELETED_TAINT_KEY for taint in taints)


def goes_with_node(pod: Raw) -> bool:
    """Whether the pod belongs to the node, not to a workload: a daemon or a static pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    of_daemon_set = any(owner.get("controller") and owner["kind"] == "DaemonSet" for owner in owners)
    return of_daemon_set or bool(_annotation(pod, MIRROR_POD_ANNOTATION))


def _without_a_place(room: Room, pods: list[Raw], around: View) -> str:
    others = around.without({room.name})
    for pod in pods:
        place = next((each.name for each in others.rooms if not refusals(pod, each, others)), None)
        if place is None:
            return f"pod {pod['metadata']['name']} has no place elsewhere"
        others = others.placed(pod, place)
    return ""


def _utilization(room: Room, pods: list[Raw]) -> float:
    offered, asked = room.offered, Amounts()
    for pod in pods:
        asked += requested(pod)
    return max(asked.cpu / max(offered.cpu, 1), asked.memory / max(offered.memory, 1))


def _may_be_moved(pod: Raw) -> bool:
    safe = _annotation(pod, _SAFE_TO_EVICT_ANNOTATION)
    if safe:
        return safe == "true"
    controlled = any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or ())
    local = any("emptyDir" in volume or "hostPath" in volume for volume in pod["spec"].get("volumes") or ())
    return controlled and not local


def _annotation(thing: Raw, key: str) -> str:
    return str((thing["metadata"].get("annotations") or {}).get(key, ""))
