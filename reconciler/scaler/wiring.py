"""Puts the worker scaler together from what the program offers."""

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide import vocabulary
from reconciler.engine.context import Context, Runnable
from reconciler.scaler.budget import Budget
from reconciler.scaler.dedicated import wiring as dedicated
from reconciler.scaler.describe import WorkersNow, describer
from reconciler.scaler.desk import Placements, TaskDesk
from reconciler.scaler.discovery import Discovery
from reconciler.scaler.knowledge import Knowledge
from reconciler.scaler.local.controller import Local
from reconciler.scaler.metrics import WorkerMetrics
from reconciler.scaler.placement import Rules
from reconciler.scaler.report import PlacementReport, StatusReport, TaskMetrics
from reconciler.scaler.shared import wiring as shared
from reconciler.scaler.status.rounds import Rounds
from reconciler.scaler.stores import Stores


@dataclass(frozen=True, slots=True)
class Scaler:
    """The desk for the front, what runs while this process leads, and how things stand at any time."""

    desk: TaskDesk
    describe: Callable[[], WorkersNow]
    runnables: tuple[Runnable, ...]


def build(context: Context) -> Scaler:
    """The worker scaler as the settings want it; in a dry run without anything that could write."""
    settings, registry = context.settings.worker_scaler, context.registry
    knowledge = _knowledge(context)
    rounds = Rounds(settings, knowledge.stores, knowledge.book, knowledge.clusters, StatusReport(registry))
    metrics = WorkerMetrics(registry)
    local = Local(settings, knowledge)
    own = dedicated.build(context, knowledge, metrics)
    pool = shared.build(context, knowledge, metrics, rounds.hurry)
    placements = Placements(own, pool, local)
    discovery = Discovery(knowledge.stores, knowledge.clusters, rounds, placements.all, local)
    desk = TaskDesk(Rules.of(settings), placements, discovery, PlacementReport(registry))
    knowledge.clusters.add_source(desk.clusters)
    TaskMetrics(registry, lambda: desk.everything() if desk.running else None)
    metrics.of_pool(vocabulary.POOL_SHARED, lambda: pool.worker_states() if desk.running else ())
    budget = Budget(context.client, settings.namespace, dry_run=context.dry_run)
    # Rounds first: they begin the term's book, which the others read.
    return Scaler(desk, describer(desk, own, pool), (rounds, own.upkeep, pool, budget, desk))


def _knowledge(context: Context) -> Knowledge:
    settings = context.settings.worker_scaler
    stores = Stores(context.client, settings.namespace, context.ages)
    knowledge = Knowledge.of(settings, stores, context.connect, context.clock)
    context.shared.run_beside(*stores.watches, knowledge.workers)
    return knowledge
