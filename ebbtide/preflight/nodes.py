"""Are zones and node groups what the block takes them for?"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.counting import count
from ebbtide.model import Taint
from ebbtide.preflight.finding import Finding, Status, some
from ebbtide.preflight.snapshot import KARPENTER_LABELS, POOL_LABELS, DaemonSetView, Facts, NodeView
from ebbtide.preflight.unread import Unread

# The value of a prevent taint is the time at which it was set: any ten digits stand for all of them.
_SOME_TIME: Final = "1772366400"


def nodes(facts: Facts, settings: Settings) -> Iterator[Finding]:
    """All checks of nodes."""
    if isinstance(facts.nodes, Unread):
        for check in ("node-labels", "node-group-zones", "karpenter"):
            yield Finding(check, Status.UNKNOWN, facts.nodes.reason)
        return
    yield from _labels(facts.nodes, settings)
    yield from _zones(managed(facts.nodes, settings))
    yield from _karpenter(facts.nodes, settings)


def managed(found: Sequence[NodeView], settings: Settings) -> list[NodeView]:
    """Those of a node group that may be blocked."""
    return [node for node in found if node.group and settings.node_rebalance.manages(node.group)]


def _labels(found: Sequence[NodeView], settings: Settings) -> Iterator[Finding]:
    check, rules = "node-labels", settings.node_rebalance
    ours = managed(found, settings)
    pools = {node.pool for node in ours if node.pool}
    problems = list(_missing(found, ours, pools, settings))
    yield from problems
    if not ours:
        yield Finding(
            check,
            Status.WARN,
            f"none of {count(len(found), 'node')} has the label {rules.node_group_label} with a value that node-groups "
            "allows",
            "without node groups no zone is ever blocked",
            "label the nodes (in the launch template or node group), or set node-rebalance.node-group-label",
        )
    elif not problems:
        groups = count(len({node.group for node in ours}), "node group")
        yield Finding(check, Status.PASS, f"{count(len(ours), 'node')} of {groups}, each with group and zone")


def _missing(
    found: Sequence[NodeView], ours: Sequence[NodeView], pools: set[str], settings: Settings
) -> Iterator[Finding]:
    rules = settings.node_rebalance
    if without_zone := [node.name for node in ours if not node.zone]:
        yield Finding(
            "node-labels",
            Status.WARN,
            f"nodes of a managed group have no label {rules.zone_label}: {some(without_zone)}",
            "such a node is never tainted, and the autoscaler may take it as the template of a blocked zone",
            "wait if they are new (the cloud controller sets it), else label them",
            tuple(without_zone),
        )
    if without_group := [node.name for node in found if not node.group and node.pool in pools]:
        yield Finding(
            "node-labels",
            Status.WARN,
            f"nodes have no label {rules.node_group_label}, though others of their Auto Scaling group do: "
            f"{some(without_group)}",
            "such a node is never tainted, and the autoscaler may take it as the template of a blocked zone",
            "label them, and set the label in the launch template of the group",
            tuple(without_group),
        )


def _zones(ours: Sequence[NodeView]) -> Iterator[Finding]:
    check = "node-group-zones"
    made = [node for node in ours if node.pool and not node.karpenter]
    zones: dict[str, set[str]] = defaultdict(set)
    for node in made:
        if node.zone:
            zones[node.pool].add(node.zone)
    for pool, spanned in sorted(zones.items()):
        if len(spanned) > 1:
            yield Finding(
                check,
                Status.FAIL,
                f"the nodes of {pool} stand in {len(spanned)} zones: {some(sorted(spanned))}",
                "the autoscaler has one template for all of them: a block closes every zone of the group, or none",
                "make one Auto Scaling group (managed node group) for each zone",
                tuple(sorted(node.name for node in made if node.pool == pool)),
            )
    if zones and all(len(spanned) == 1 for spanned in zones.values()):
        yield Finding(check, Status.PASS, f"{count(len(zones), 'Auto Scaling group')} with nodes, each in one zone")
    if not zones:
        labels = ", ".join(POOL_LABELS)
        seen = f"no managed node says which Auto Scaling group it belongs to ({labels})"
        cure = "make sure that each Auto Scaling group stands in one zone only"
        yield Finding(check, Status.UNKNOWN, seen, cure=cure)


def _karpenter(found: Sequence[NodeView], settings: Settings) -> Iterator[Finding]:
    made = [node for node in found if node.karpenter]
    if not made:
        yield Finding("karpenter", Status.PASS, f"no node has a label {' or '.join(KARPENTER_LABELS)}")
        return
    groups = len(managed(made, settings))
    yield Finding(
        "karpenter",
        Status.WARN,
        f"Karpenter manages {count(len(made), 'node')}, {groups} of them of node groups that may be blocked: "
        f"{some(node.name for node in made)}",
        "Karpenter does not look at taints of existing nodes: only the webhook's exclusion of zones holds there",
        "run the webhook, or have these node groups made by the Cluster Autoscaler",
        tuple(node.name for node in made),
    )


def daemon_sets(facts: Facts, settings: Settings) -> Iterator[Finding]:
    """Pods of DaemonSets have to get onto nodes that come up in a blocked zone."""
    check, found, daemons, standing = "daemon-sets", facts.nodes, facts.daemon_sets, facts.daemon_nodes
    if isinstance(found, Unread) or isinstance(daemons, Unread) or isinstance(standing, Unread):
        reason = next(part.reason for part in (found, daemons, standing) if isinstance(part, Unread))
        yield Finding(check, Status.UNKNOWN, reason)
        return
    ours = {node.name for node in managed(found, settings)}
    here = [daemon for daemon in daemons if ours & standing.get(daemon.uid, frozenset())]
    lacking = [daemon.name for daemon in here if not _gets_in(daemon, settings)]
    if not lacking:
        yield Finding(check, Status.PASS, "every DaemonSet on nodes that may be blocked tolerates the prevent taint")
        return
    key = settings.node_rebalance.prevent_ca_scale_up_taint_key
    yield Finding(
        check,
        Status.WARN,
        f"DaemonSets on nodes that may be blocked do not tolerate {key}: {some(lacking)}",
        "a node that joins a blocked zone stays without their pods until the zone is open again",
        f"add the toleration {{key: {key}, operator: Exists, effect: {vocabulary.PREVENT_TAINT_EFFECT}}} to what every "
        "node needs",
        tuple(lacking),
    )


def _gets_in(daemon: DaemonSetView, settings: Settings) -> bool:
    taint = Taint(settings.node_rebalance.prevent_ca_scale_up_taint_key, _SOME_TIME, vocabulary.PREVENT_TAINT_EFFECT)
    return any(toleration.covers(taint) for toleration in daemon.tolerations)
