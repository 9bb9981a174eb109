"""The pool and what it stands on, without the rest of the scaler: for tests and figures."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from ebbtide.clock import Clock
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import NODES
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, NodeFacts, node_facts
from ebbtide.service.connection import StoreAges
from reconciler.engine import beside
from reconciler.engine.context import Connect, Context
from reconciler.engine.shared import Shared as SharedStores
from reconciler.scaler.knowledge import Knowledge
from reconciler.scaler.metrics import WorkerMetrics
from reconciler.scaler.report import StatusReport
from reconciler.scaler.resolving import Resolve, by_dns
from reconciler.scaler.shared import wiring
from reconciler.scaler.shared.controller import Shared
from reconciler.scaler.status.rounds import Rounds
from reconciler.scaler.stores import Stores


@dataclass(frozen=True)
class Beside:
    """Something to be run beside others."""

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Surroundings:
    """The way to workers, the time, what the process is called, and what it is told of names."""

    connect: Connect
    clock: Clock
    identity: str
    resolve: Resolve = by_dns


@dataclass(frozen=True)
class Program:
    """`beside` has to run while the pool does."""

    pool: Shared
    knowledge: Knowledge
    beside: tuple[beside.Beside, ...]


def assemble(client: Client, rules: Settings, around: Surroundings, registry: CollectorRegistry) -> Program:
    """As the reconciler puts it together."""
    ages, scaler = StoreAges(registry), rules.worker_scaler
    labels = CellLabels(rules.node_rebalance.node_group_label, rules.node_rebalance.zone_label)
    nodes: Store[NodeFacts] = Store(lambda raw: node_facts(raw, labels))
    shared = SharedStores(client, around.clock, around.identity, ages, dry_run=False)
    context = Context(
        settings=rules,
        client=client,
        nodes=nodes,
        shared=shared,
        ages=ages,
        registry=registry,
        clock=around.clock,
        namespace="ebbtide-system",
        identity=around.identity,
        deployment="",
        dry_run=False,
    )
    stores = Stores(client, scaler.namespace, ages)
    knowledge = Knowledge.of(scaler, stores, around.connect, around.clock, around.resolve)
    rounds = Rounds(scaler, stores, knowledge.book, knowledge.clusters, StatusReport(registry))
    pool = wiring.build(context, knowledge, WorkerMetrics(registry), rounds.hurry)
    watches = (Reflector(client, NODES, nodes), *shared.parts, *stores.watches)
    return Program(pool, knowledge, (*watches, knowledge.workers, Beside(rounds.name, rounds.run)))
