"""What a cluster at rest has to look like, told anew from the objects themselves and without the product's code."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ebbtide import vocabulary
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import parse_time
from ebbtide.sim.kinds import NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from ebbtide.sim.storage import Storage
from ebbtide.sim.stored import Object, Stored
from tests.simulation import notation
from tests.simulation.draws import is_signalled
from tests.simulation.pod_events import QUIET_NAMESPACE

CellName = tuple[str, str]
# Seconds within which the autoscaler removes a node that it has marked, and by how much clocks of replicas differ.
REMOVED_WITHIN = 900.0
CLOCKS_DIFFER = 120.0


def cells(storage: Storage) -> Mapping[CellName, list[Object]]:
    """The live nodes of each cell."""
    found: dict[CellName, list[Object]] = {}
    for node in storage.scan(NODES):
        cell = cell_of(node.body)
        if cell is not None and not node.deleting:
            found.setdefault(cell, []).append(node.body)
    return found


def cell_of(node: Object) -> CellName | None:
    labels = node["metadata"]["labels"]
    group, zone = labels.get(vocabulary.NODE_GROUP_LABEL), labels.get(vocabulary.ZONE_LABEL)
    return (group, zone) if group and zone else None


def carriers(nodes: Iterable[Object]) -> int:
    """How many of the nodes carry our taint."""
    return sum("P" in notation.marks(node).split() for node in nodes)


def exclusion(storage: Storage, group: str) -> tuple[str, ...]:
    """The zones that a guarded pod of the group is to be kept out of: the blocked ones, unless none would be left."""
    zones = {zone: carriers(nodes) for (owner, zone), nodes in cells(storage).items() if owner == group}
    return tuple(sorted(zone for zone in zones if zones[zone])) if not all(zones.values()) else ()


def manages(rules: NodeRebalance, group: str) -> bool:
    """Whether the group is among those to be looked after; the histories use names, and `*` for all."""
    return "*" in rules.node_groups or group in rules.node_groups


def is_ready(node: Object) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])


def removed_since(node: Object) -> float | None:
    """Since which epoch second the autoscaler removes the node, None if it does not."""
    taints = node["spec"].get("taints") or ()
    return next((float(t["value"]) for t in taints if t["key"] == vocabulary.TO_BE_DELETED_TAINT_KEY), None)


def held_by(storage: Storage, pod: Object, node: Object) -> str:
    """The volume of the pod that can be used nowhere but in the node's zone, "" without one."""
    zone = node["metadata"]["labels"].get(vocabulary.ZONE_LABEL)
    for each in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" not in each:
            continue
        claim = storage.get(PERSISTENT_VOLUME_CLAIMS, each["persistentVolumeClaim"]["claimName"], "default")
        if claim["spec"].get("volumeName"):
            volume = storage.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
            (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            if term["matchExpressions"][0]["values"] == [zone]:
                return str(volume["metadata"]["name"])
    return ""


def signal_time(node: Object) -> float | None:
    """The time that the node's signal says of itself, or that we have written down; None without any."""
    (value,) = (t.get("value", "") for t in node["spec"]["taints"] if t["key"] == vocabulary.SIGNAL_TAINT_KEY)
    if len(value) == 10 and value.isdigit():
        return float(value)
    return parse_time(annotation(node))


def annotation(node: Object) -> str | None:
    found: str | None = (node["metadata"].get("annotations") or {}).get(vocabulary.FIRST_SEEN_ANNOTATION)
    return found


def is_ignored(thing: Object) -> bool:
    annotations = thing["metadata"].get("annotations") or {}
    return annotations.get(vocabulary.BLOCK_ANNOTATION) == vocabulary.BLOCK_IGNORE


def must_stay(pod: Object, *, bare_too: bool) -> str:
    """Why this pod may never be evicted, whatever is going on around it; "" if it may."""
    owners = pod["metadata"].get("ownerReferences") or []
    tolerations = pod["spec"].get("tolerations") or []
    if vocabulary.MIRROR_POD_ANNOTATION in (pod["metadata"].get("annotations") or {}):
        return "static"
    if any(owner["kind"] == "DaemonSet" for owner in owners):
        return "of a DaemonSet"
    if not owners and not bare_too:
        return "bare"
    if {"operator": "Exists"} in tolerations or all(each in tolerations for each in notation.BOTH_TOLERATED):
        return "tolerates both taints"
    return ""


@dataclass(frozen=True, slots=True)
class Rest:
    """A cluster that has come to rest at the epoch second `now`."""

    storage: Storage
    rules: NodeRebalance
    now: float

    def faults(self, *, zone_vanished: bool) -> Iterator[str]:
        """Everything that is not as it has to be."""
        by_cell = cells(self.storage)
        blocked = {cell for cell, nodes in by_cell.items() if carriers(nodes) == len(nodes)}
        wanted = {cell for cell, nodes in by_cell.items() if self._is_to_be_blocked(nodes)}
        for cell, nodes in by_cell.items():
            if 0 < carriers(nodes) < len(nodes):
                yield f"{cell} is half tainted"
            if cell in blocked - wanted:
                yield f"{cell} is tainted and has no reason to be"
            if cell in wanted - blocked and not self.rules.min_open_zones:
                yield f"{cell} is to be blocked and is not"
            yield from self._wrong_times(nodes)
            if cell in blocked:
                yield from self._forgotten_pods(nodes)
        if self.rules.min_open_zones:
            yield from self._wrong_number_of_zones(by_cell, blocked, wanted, zone_vanished=zone_vanished)

    def _is_to_be_blocked(self, nodes: list[Object]) -> bool:
        signals = [node for node in nodes if is_signalled(node)]
        group, _ = cell_of(nodes[0]) or ("", "")
        if not signals or any(map(is_ignored, nodes)) or not manages(self.rules, group):
            return False
        if len(signals) > 1 or carriers(nodes):
            return True
        since = signal_time(signals[0])
        return since is not None and self.now - since > self.rules.max_rebalance_signal_time

    def _wrong_number_of_zones(
        self, by_cell: Mapping[CellName, object], blocked: set[CellName], wanted: set[CellName], *, zone_vanished: bool
    ) -> Iterator[str]:
        for group in {group for group, _ in by_cell}:
            zones = len([cell for cell in by_cell if cell[0] == group])
            closed = len([cell for cell in blocked if cell[0] == group])
            asked = len([cell for cell in wanted if cell[0] == group])
            most = max(0, zones - self.rules.min_open_zones)
            if closed > most and not zone_vanished:
                yield f"group {group}: {closed} of {zones} zones are closed"
            if closed < min(asked, most):
                yield f"group {group}: only {closed} zones are closed, {asked} have a reason, {most} may be"

    def _wrong_times(self, nodes: list[Object]) -> Iterator[str]:
        for node in nodes:
            name, seen = node["metadata"]["name"], annotation(node)
            if seen is not None and not is_signalled(node):
                yield f"{name} has a time for a signal that is gone"
            group, _ = cell_of(node) or ("", "")
            if is_signalled(node) and signal_time(node) is None and manages(self.rules, group):
                yield f"{name} has a signal without a time"

    def _forgotten_pods(self, nodes: list[Object]) -> Iterator[str]:
        hosts = {node["metadata"]["name"]: node for node in nodes if is_signalled(node) and not self._is_leaving(node)}
        quiet = is_ignored(self.storage.find(NAMESPACES, QUIET_NAMESPACE).body)
        for pod in self.storage.scan(PODS):
            host = hosts.get(pod.body["spec"].get("nodeName", ""))
            if host is not None and self._should_have_gone(pod, host, quiet=quiet):
                yield f"pod {pod.name} is still on {host['metadata']['name']}"

    def _is_leaving(self, node: Object) -> bool:
        """Whether the autoscaler removes the node, by some clock."""
        since = removed_since(node)
        return since is not None and self.now - since < REMOVED_WITHIN + CLOCKS_DIFFER

    def _should_have_gone(self, pod: Stored, host: Object, *, quiet: bool) -> bool:
        if pod.deleting or pod.body["status"].get("phase") in ("Succeeded", "Failed"):
            return False
        if (pod.namespace == QUIET_NAMESPACE and quiet) or pod.body["metadata"].get("labels", {}).get("app"):
            return False
        if self.rules.zonal_volume_policy == "hold" and is_ready(host) and held_by(self.storage, pod.body, host):
            return False
        return not must_stay(pod.body, bare_too=self.rules.evict_bare_pods)
