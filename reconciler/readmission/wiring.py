"""Puts re-admission together from what the program offers."""

from ebbtide.exclusion.decide import Rules
from ebbtide.exclusion.volumes import BoundVolumes
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import MUTATING_WEBHOOKS, PODS
from ebbtide.kube.store import Store
from reconciler.engine.beside import Beside
from reconciler.engine.context import Context
from reconciler.readmission.act import Act
from reconciler.readmission.controller import Readmission
from reconciler.readmission.decide import PendingPod
from reconciler.readmission.report import Report
from reconciler.readmission.snapshot import Snapshot, Watched, WebhookFacts, pending_pod, webhook_facts

# Pods that have a node, or have finished, are most of a cluster and none of our business: the server leaves them out.
_WAITING = "spec.nodeName=,status.phase=Pending"


def build(context: Context) -> Readmission:
    """Re-admission as the settings want it; in a dry run without anything that could write."""
    settings, shared = context.settings, context.shared
    labels = settings.node_rebalance.labels
    pods: Store[PendingPod] = Store(lambda raw: pending_pod(raw, labels))
    webhooks = Store(webhook_facts)
    aware = settings.webhook.volume_zone_awareness
    zones = BlockedZones(context.nodes, settings.node_rebalance.prevent_ca_scale_up_taint_key)
    watched = Watched(pods, shared.namespaces, webhooks, BoundVolumes(shared.claims, shared.volumes) if aware else None)
    controller = Readmission(
        Snapshot(watched, zones, Rules.of(settings)),
        context.clock,
        Report(context.registry, shared.recorder),
        None if context.dry_run else Act(context.client),
        _watches(context, pods, webhooks),
        settings.node_rebalance.resync_period,
    )
    controller.follow(pods, zones, shared.namespaces, webhooks)
    if aware:
        controller.follow_volumes(shared.claims, shared.volumes)
    return controller


def _watches(context: Context, pods: Store[PendingPod], webhooks: Store[WebhookFacts]) -> tuple[Beside, ...]:
    selector = context.settings.certs.webhook_configuration_selector
    return (
        context.ages.follow(Reflector(context.client, PODS, pods, field_selector=_WAITING)),
        context.ages.follow(Reflector(context.client, MUTATING_WEBHOOKS, webhooks, label_selector=selector)),
    )
