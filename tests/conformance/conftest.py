"""Runs every conformance test twice: against the real API server, and against the embedded cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from ebbtide.kube.client import Client
from ebbtide.kube.resources import NAMESPACES, NODES
from ebbtide.sim.actors.kubelet import Kubelet, Timings
from ebbtide.sim.actors.scheduler import Scheduler
from ebbtide.sim.actors.workloads import Workloads
from ebbtide.sim.cluster import Cluster
from tests.conformance.subject import Subject, settled
from tests.controlplane.servers import ControlPlane
from tests.controlplane.world import wait_until, world

# As the fake kubelets of the real control plane: everything at once.
AT_ONCE = Timings(joining=0.0, starting=0.0, warming=0.0, stopping=0.0)


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.controlplane), "embedded"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    """The API server under test."""
    chosen = _real(request.getfixturevalue("control_plane")) if request.param == "real" else _embedded()
    async with chosen as created:
        yield created


@asynccontextmanager
async def _real(plane: ControlPlane) -> AsyncIterator[Subject]:
    async with world(plane) as corner:

        async def make_node() -> str:
            (name,) = await corner.add_nodes("a", 1)
            return name

        async def compact() -> None:
            await asyncio.to_thread(plane.compact)

        yield Subject(corner.client, corner.namespace, make_node, compact)


@asynccontextmanager
async def _embedded() -> AsyncIterator[Subject]:
    async with (
        Cluster() as cluster,
        _actors(cluster),
        Client(cluster.access(), field_manager="ebbtide-tests", user_agent="ebbtide-tests") as client,
    ):
        await client.create(NAMESPACES, {"metadata": {"name": "corner"}})

        async def make_node() -> str:
            name = f"node-{len(await client.list_all(NODES)) + 1}"
            await client.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
            await wait_until(lambda: settled(client, name), f"node {name} is Ready")
            return name

        async def compact() -> None:
            cluster.storage.compact()

        yield Subject(client, "corner", make_node, compact)


@asynccontextmanager
async def _actors(cluster: Cluster) -> AsyncIterator[None]:
    """What stands around the real API server too."""
    storage = cluster.storage
    actors = (Kubelet(storage, AT_ONCE), Scheduler(storage, Random(0)), Workloads(storage))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(actor.run()) for actor in actors]
        yield
        for task in running:
            task.cancel()
