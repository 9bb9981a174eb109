"""Puts the shared pool together from what the scaler offers."""

from collections.abc import Callable

from ebbtide.exclusion.volumes import BoundVolumes
from ebbtide.exclusion.zones import BlockedZones
from reconciler.engine.context import Context
from reconciler.scaler.address import Addresses
from reconciler.scaler.knowledge import Knowledge
from reconciler.scaler.metrics import WorkerMetrics
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.refusals import Refusals
from reconciler.scaler.shared.act import Act
from reconciler.scaler.shared.assigning import Assigning
from reconciler.scaler.shared.controller import Frame, Shared
from reconciler.scaler.shared.facts import Rules
from reconciler.scaler.shared.keeping import DesiredPool, Keeping
from reconciler.scaler.shared.ledger import Ledger
from reconciler.scaler.shared.looking import Looks, Works
from reconciler.scaler.shared.marks import Marks
from reconciler.scaler.shared.memory import Memory
from reconciler.scaler.shared.mending import Mending
from reconciler.scaler.shared.queue import Waiting
from reconciler.scaler.shared.report import Report
from reconciler.scaler.shared.scaling import Ask, Scaling
from reconciler.scaler.shared.snapshot import Snapshot, Watched
from reconciler.scaler.shared.spec import disk_of, size_of
from reconciler.scaler.shared.standing import Basis, Standing
from reconciler.scaler.shared.stories import Subject
from reconciler.scaler.status.book import Answer

# Answers are taken every refresh interval; one that is older than this many of them is none.
_ROUNDS_OLD = 3


def build(context: Context, knowledge: Knowledge, metrics: WorkerMetrics, hurry: Callable[[], None]) -> Shared:
    """The pool as the settings want it, also one that is switched off, which drains.

    `hurry` has all workers asked at once.
    """
    settings, pool = context.settings.worker_scaler, context.settings.worker_scaler.shared_pool_name
    size = size_of(settings.shared_sts_config)
    cells = context.settings.node_rebalance.labels
    memory = Memory(settings.reservation_seconds, settings.shared_ended_task_grace_sec)
    snapshot = _snapshot(context, knowledge, memory)
    ledger = Ledger(context.client, knowledge.stores.namespace, pool, context.identity)
    basis = Basis(Rules.of(settings, disk_of(size)), memory, snapshot, Waiting())
    standing = Standing(basis, ledger, context.clock, dry_run=context.dry_run)
    report = Report(context.registry, context.shared.recorder, metrics, lambda: _subject(knowledge, pool))
    act = Act(context.client, knowledge.stores, pool, settings.worker_port)
    keeping = Keeping(
        DesiredPool(pool, settings.template_sts_name, size, cells), act, knowledge.stores, snapshot, report
    )
    marks = Marks(act)

    ask = _asker(knowledge, standing)
    works = Works(
        Assigning(standing, marks, report),
        Scaling(standing, act, keeping, report, ask),
        keeping,
        Mending(standing, act, marks, knowledge.stores, report, pool),
        Refusals(context.client, context.clock, settings.namespace),
        ask,
    )
    frame = Frame(pool, Addresses.of(settings), knowledge.names, settings.refresh_interval, settings.start_timeout)
    return Shared(frame, knowledge, standing, Looks(standing, works, report, hurry), report)


def _snapshot(context: Context, knowledge: Knowledge, memory: Memory) -> Snapshot:
    settings = context.settings.worker_scaler
    watched = Watched(
        stores=knowledge.stores,
        book=knowledge.book,
        nodes=context.nodes,
        zones=BlockedZones(context.nodes, context.settings.node_rebalance.prevent_ca_scale_up_taint_key),
        volumes=BoundVolumes(context.shared.claims, context.shared.volumes),
        pool=settings.shared_pool_name,
        group=settings.shared_sts_config.node_group,
    )
    oldest = _ROUNDS_OLD * settings.refresh_interval + settings.status_timeout
    return Snapshot(watched, memory, oldest, settings.start_timeout)


def _asker(knowledge: Knowledge, standing: Standing) -> Ask:
    async def ask(pod: WorkerPod) -> Answer:
        return await knowledge.book.ask_now(pod, knowledge.clusters.of(pod) | standing.clusters)

    return ask


def _subject(knowledge: Knowledge, pool: str) -> Subject:
    known = knowledge.stores.worker_set(pool)
    return Subject(knowledge.stores.namespace, pool, "" if known is None else known.uid)
