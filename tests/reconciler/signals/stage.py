"""The reader of a queue as the leader runs it, on an embedded cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from ebbtide.kube.client import Client
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import NODES
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, NodeFacts, node_facts
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.vocabulary import SIGNAL_TAINT_KEY
from reconciler.engine.beside import running
from reconciler.engine.events import Recorder
from reconciler.signals.act import Act
from reconciler.signals.controller import QueueReader
from reconciler.signals.queue import opened
from reconciler.signals.report import Report
from tests.controlplane.world import wait_until
from tests.ebbtide.kube.wire import until
from tests.reconciler.signals.sqs import REGION

PATIENCE = 120.0
FOREIGN = objects.taint("team", "x")


@dataclass
class Stage:
    """A cluster whose nodes are followed. `readers` share registry and store, as those of one process do."""

    cluster: Cluster
    client: Client
    nodes: Store[NodeFacts]
    recorder: Recorder
    registry: CollectorRegistry

    def __post_init__(self) -> None:
        self.report = Report(self.registry, self.recorder)

    def add_node(self, name: str, instance: str) -> None:
        body = objects.node(name, group="g", zone="a", taints=[FOREIGN])
        self.cluster.create(objects.changed(body, {"spec": {"providerID": f"aws:///a/{instance}"}}))

    def reader(self, url: str, client: Client | None = None) -> QueueReader:
        act = Act(client or self.client, self.nodes, SIGNAL_TAINT_KEY)
        return QueueReader(partial(opened, url, REGION), act, self.report)

    async def raw(self, name: str) -> dict[str, Any]:
        return await self.client.get(NODES, name)

    async def signals(self, name: str) -> list[str]:
        """The values of its signal taints."""
        taints = (await self.raw(name))["spec"].get("taints", [])
        return [taint["value"] for taint in taints if taint["key"] == SIGNAL_TAINT_KEY]

    async def signalled(self, name: str) -> None:
        await wait_until(partial(self.signals, name), f"node {name} has a signal")

    def count(self, result: str) -> float:
        return self.registry.get_sample_value("signals_messages_total", {"result": result}) or 0.0

    async def counted(self, result: str, count: int) -> None:
        await until(lambda: self.count(result) >= count, PATIENCE)


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    async with Cluster(seed=1) as cluster, Client(cluster.access(), field_manager="test", user_agent="test") as client:
        nodes: Store[NodeFacts] = Store(lambda raw: node_facts(raw, CellLabels()))
        recorder = Recorder(client, cluster.clock, "test")
        async with running((Reflector(client, NODES, nodes), recorder)):
            await nodes.wait_synced()
            yield Stage(cluster, client, nodes, recorder, CollectorRegistry())


@asynccontextmanager
async def reading(reader: QueueReader) -> AsyncIterator[asyncio.Future[None]]:
    """Runs it; leaving the block is `kill -9`: nothing gets to finish anything."""
    task = asyncio.ensure_future(reader.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
