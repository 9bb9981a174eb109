"""Puts zone rebalance together from what the program offers."""

from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from ebbtide.kube.store import Store
from ebbtide.model import claim_facts, namespace_facts, volume_facts
from reconciler.engine.context import Context
from reconciler.engine.events import Recorder
from reconciler.rebalance.act import Act
from reconciler.rebalance.controller import Hands, Part, Rebalance
from reconciler.rebalance.drain import Drain
from reconciler.rebalance.report import Report
from reconciler.rebalance.snapshot import PodSurroundings


def build(context: Context) -> Rebalance:
    """Zone rebalance as the settings want it; in a dry run without anything that could write."""
    rules = context.settings.node_rebalance
    if context.dry_run:
        report = Report(context.registry, context.clock, rules, recorder=None)
        return Rebalance(context.nodes, rules, context.clock, report, hands=None)
    recorder = Recorder(context.client, context.clock, context.identity)
    report = Report(context.registry, context.clock, rules, recorder)
    act = Act(context.client, context.nodes, rules, context.clock)
    surroundings, watches = _surroundings(context)
    # In a pod the identity is the pod's name; elsewhere it names no pod.
    own_pod = f"{context.namespace}/{context.identity}"
    drain = Drain(context.client, surroundings, rules, report.asked, own_pod)
    hands = Hands(act, drain, (drain, recorder, *watches))
    return Rebalance(context.nodes, rules, context.clock, report, hands)


def _surroundings(context: Context) -> tuple[PodSurroundings, tuple[Part, ...]]:
    """What decides about pods besides themselves, and the watches that keep it up to date."""
    namespaces = Store(namespace_facts)
    watching = Reflector(context.client, NAMESPACES, namespaces)
    if context.settings.node_rebalance.zonal_volume_policy == "evict":
        return PodSurroundings(namespaces), (watching,)
    claims, volumes = Store(claim_facts), Store(volume_facts)
    return PodSurroundings(namespaces, claims, volumes), (
        watching,
        Reflector(context.client, PERSISTENT_VOLUME_CLAIMS, claims),
        Reflector(context.client, PERSISTENT_VOLUMES, volumes),
    )
