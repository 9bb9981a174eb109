"""Puts zone rebalance together from what the program offers."""

from ebbtide.exclusion.volumes import BoundVolumes
from reconciler.engine.context import Context
from reconciler.rebalance.act import Act
from reconciler.rebalance.controller import Hands, Rebalance
from reconciler.rebalance.drain import Drain
from reconciler.rebalance.report import Report
from reconciler.rebalance.snapshot import PodSurroundings
from reconciler.rebalance.status import Statuses


def build(context: Context) -> Rebalance:
    """Zone rebalance as the settings want it; in a dry run without anything that could write."""
    rules = context.settings.node_rebalance
    statuses = Statuses(context.clock)
    report = Report(context.registry, context.clock, rules, context.shared.recorder, statuses)
    hands = None if context.dry_run else _hands(context, report)
    return Rebalance(context.nodes, rules, context.clock, statuses, report, hands)


def _hands(context: Context, report: Report) -> Hands:
    rules = context.settings.node_rebalance
    # In a pod the identity is the pod's name; elsewhere it names no pod.
    own_pod = f"{context.namespace}/{context.identity}"
    drain = Drain(context.client, context.nodes, _surroundings(context), rules, report, own_pod)
    return Hands(Act(context.client, context.nodes, rules, context.clock), drain)


def _surroundings(context: Context) -> PodSurroundings:
    """What decides about pods besides themselves; volumes only where they do."""
    shared = context.shared
    if context.settings.node_rebalance.zonal_volume_policy == "evict":
        return PodSurroundings(shared.namespaces)
    return PodSurroundings(shared.namespaces, BoundVolumes(shared.claims, shared.volumes))
