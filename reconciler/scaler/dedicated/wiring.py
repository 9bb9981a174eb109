"""Puts dedicated workers together from what the program and the scaler offer."""

from reconciler.engine.context import Context
from reconciler.scaler.address import Addresses
from reconciler.scaler.dedicated.act import Act
from reconciler.scaler.dedicated.admission import Admission
from reconciler.scaler.dedicated.basis import Basis
from reconciler.scaler.dedicated.controller import Upkeep
from reconciler.scaler.dedicated.memory import Lives
from reconciler.scaler.dedicated.placement import Dedicated
from reconciler.scaler.dedicated.report import Report
from reconciler.scaler.dedicated.sizes import Sizes, tiers_of
from reconciler.scaler.dedicated.snapshot import Snapshot
from reconciler.scaler.dedicated.wants import Wants
from reconciler.scaler.knowledge import Knowledge
from reconciler.scaler.metrics import WorkerMetrics
from reconciler.scaler.refusals import Refusals


def build(context: Context, knowledge: Knowledge, metrics: WorkerMetrics) -> Dedicated:
    """Dedicated workers as the settings want them; in a dry run without anything that could write."""
    settings = context.settings.worker_scaler
    basis = _basis(context, knowledge, metrics)
    knowledge.clusters.add_source(basis.snapshot.clusters)
    port, template = settings.worker_port, settings.template_sts_name
    act = None if context.dry_run else Act(context.client, knowledge.stores, template, settings.name, port)
    return Dedicated(basis, Upkeep(basis, act, knowledge.stores), knowledge)


def _basis(context: Context, knowledge: Knowledge, metrics: WorkerMetrics) -> Basis:
    settings, rebalance = context.settings.worker_scaler, context.settings.node_rebalance
    return Basis(
        settings=settings,
        cells=rebalance.labels,
        sizes=_sizes(context),
        addresses=Addresses.of(settings),
        clock=context.clock,
        snapshot=Snapshot(knowledge.stores, settings.name),
        book=knowledge.book,
        wants=Wants(settings.start_timeout),
        lives=Lives(settings.reservation_seconds),
        admission=Admission(knowledge.stores, settings.worker_count_limit),
        report=Report(metrics, context.shared.recorder, settings.namespace, settings.template_sts_name),
        refusals=Refusals(context.client, context.clock, settings.namespace),
        names=knowledge.names,
    )


def _sizes(context: Context) -> Sizes:
    settings = context.settings.worker_scaler
    return Sizes(tiers_of(settings.sts_configs), settings.worker_max_cores, settings.worker_min_storage_gb)
