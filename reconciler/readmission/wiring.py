"""Puts re-admission together from what the program offers."""

from ebbtide.exclusion.decide import Rules
from ebbtide.exclusion.volumes import VolumeZones
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, ClaimFacts, VolumeFacts, claim_facts, namespace_facts, volume_facts
from reconciler.engine.context import Context
from reconciler.engine.events import Recorder
from reconciler.readmission.act import Act
from reconciler.readmission.controller import Part, Readmission
from reconciler.readmission.decide import PendingPod
from reconciler.readmission.report import Report
from reconciler.readmission.snapshot import Snapshot, Watched, pending_pod, webhook_facts

# Pods that have a node, or have finished, are most of a cluster and none of our business: the server leaves them out.
_WAITING = "spec.nodeName=,status.phase=Pending"


def build(context: Context) -> Readmission:
    """Re-admission as the settings want it; in a dry run without anything that could write."""
    settings = context.settings
    labels = CellLabels(settings.node_rebalance.node_group_label, settings.node_rebalance.zone_label)
    pods: Store[PendingPod] = Store(lambda raw: pending_pod(raw, labels))
    namespaces, webhooks = Store(namespace_facts), Store(webhook_facts)
    claims, volumes = Store(claim_facts), Store(volume_facts)
    aware = settings.webhook.volume_zone_awareness
    zones = BlockedZones(context.nodes, settings.node_rebalance.prevent_ca_scale_up_taint_key)
    watched = Watched(pods, namespaces, webhooks, VolumeZones(claims, volumes) if aware else None)
    recorder = None if context.dry_run else Recorder(context.client, context.clock, context.identity)
    parts: tuple[Part, ...] = (
        *(() if recorder is None else (recorder,)),
        Reflector(context.client, PODS, pods, field_selector=_WAITING),
        Reflector(context.client, NAMESPACES, namespaces),
        Reflector(
            context.client,
            MUTATING_WEBHOOKS,
            webhooks,
            label_selector=settings.certs.webhook_configuration_selector,
        ),
        *(_volume_watches(context, claims, volumes) if aware else ()),
    )
    controller = Readmission(
        Snapshot(watched, zones, _rules(context)),
        context.clock,
        Report(context.registry, recorder),
        None if context.dry_run else Act(context.client),
        parts,
        settings.node_rebalance.resync_period,
    )
    controller.follow(pods, zones, namespaces, webhooks)
    if aware:
        controller.follow_volumes(claims, volumes)
    return controller


def _rules(context: Context) -> Rules:
    settings = context.settings
    return Rules(
        prevent_taint_key=settings.node_rebalance.prevent_ca_scale_up_taint_key,
        shared_group=settings.worker_scaler.shared_sts_config.node_group,
    )


def _volume_watches(context: Context, claims: Store[ClaimFacts], volumes: Store[VolumeFacts]) -> tuple[Part, ...]:
    return (
        Reflector(context.client, PERSISTENT_VOLUME_CLAIMS, claims),
        Reflector(context.client, PERSISTENT_VOLUMES, volumes),
    )
