"""Controllers share stores and the recorder, so that no kind is watched twice in a process."""

import asyncio
from collections import Counter

from prometheus_client import CollectorRegistry

from ebbtide.config import Settings
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.client import Client
from ebbtide.service.connection import StoreAges
from ebbtide.service.supervisor import Supervisor
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.time import simulate
from reconciler.engine.beside import running
from reconciler.engine.shared import Shared
from reconciler.main import Reconciler
from reconciler.place import Place


def test_a_store_is_watched_only_if_somebody_asks_for_it_and_then_once() -> None:
    async def story() -> None:
        async with Cluster() as cluster, Client(cluster.access(), field_manager="test", user_agent="test") as client:
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "db"}})
            shared = Shared(client, cluster.clock, "a", StoreAges(CollectorRegistry()), dry_run=True)
            assert shared.namespaces is shared.namespaces
            async with running(shared.parts):
                await shared.namespaces.wait_synced()
            assert shared.namespaces.get("db") is not None
            assert watched(client) == {"namespaces": 1}

    simulate(story())


def test_a_dry_run_has_nobody_who_writes_events() -> None:
    async def story() -> None:
        async with Cluster() as cluster, Client(cluster.access(), field_manager="test", user_agent="test") as client:
            assert Shared(client, cluster.clock, "a", StoreAges(CollectorRegistry()), dry_run=True).recorder is None
            assert (
                Shared(client, cluster.clock, "a", StoreAges(CollectorRegistry()), dry_run=False).recorder is not None
            )

    simulate(story())


def test_a_leader_with_every_controller_watches_each_kind_of_the_shared_ones_once() -> None:
    """Zone rebalance and re-admission both read namespaces, claims and volumes."""
    settings = Settings(node_rebalance=NodeRebalance(zonal_volume_policy="hold"))

    async def story() -> None:
        async with Cluster() as cluster, Client(cluster.access(), field_manager="test", user_agent="test") as client:
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ebbtide-system"}})
            cluster.create(objects.node("a1", group="g", zone="a"))
            program = Reconciler(settings, client, cluster.clock, Place("ebbtide-system", "a"), dry_run=False)
            stopping = asyncio.Event()
            asyncio.get_running_loop().call_later(60, stopping.set)
            await Supervisor(program.health, stopping).run(*program.parts(None))
            found = watched(client)
            kinds = ("nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes")
            assert {kind: found[kind] for kind in kinds} == dict.fromkeys(kinds, 1)

    simulate(story())


def watched(client: Client) -> Counter[str]:
    """By kind, the watches that were opened."""
    return Counter({verb.resource: count for verb, count in client.sent.items() if verb.verb == "watch"})
