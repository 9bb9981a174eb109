"""What an operator is told about the connection to the cluster."""

import asyncio
from contextlib import suppress

from prometheus_client import CollectorRegistry

from ebbtide.kube.access import from_url
from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError, NotFound
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import NODES, PODS
from ebbtide.kube.store import Store
from ebbtide.kube.traffic import Ending
from ebbtide.model import namespace_facts
from ebbtide.service.connection import ApiFigures, StoreAges
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.time import simulate


def test_requests_are_counted_by_what_was_asked_and_answered() -> None:
    async def story() -> None:
        registry = CollectorRegistry()
        async with Cluster() as cluster, Client(cluster.access(), field_manager="test", user_agent="test") as client:
            ApiFigures(registry, client.traffic)
            await client.list_all(NODES)
            await client.list_all(NODES)
            with suppress(NotFound):
                await client.evict("p", namespace="default", uid="u")
        assert requests(registry, "list", "nodes", "200") == 2
        assert requests(registry, "create", "pods/eviction", "404") == 1

    simulate(story())


async def test_a_request_without_an_answer_is_counted_as_such() -> None:
    registry = CollectorRegistry()
    async with Client(from_url("http://127.0.0.1:1"), field_manager="test", user_agent="test") as client:
        ApiFigures(registry, client.traffic)
        with suppress(KubeError):
            await client.patch_merge(PODS, "p", {}, namespace="default")
    assert requests(registry, "patch", "pods", "none") == 1


def test_the_age_of_a_store_is_told_while_it_is_kept_up_to_date() -> None:
    """A store that nobody keeps says nothing: its age would be an alarm without a cause."""

    async def story() -> None:
        registry = CollectorRegistry()
        ages = StoreAges(registry)
        async with Cluster() as cluster, Client(cluster.access(), field_manager="test", user_agent="test") as client:
            reflector = ages.follow(Reflector(client, NODES, Store(namespace_facts)))
            assert age(registry) is None
            task = asyncio.create_task(reflector.run())
            await asyncio.sleep(1)
            told = age(registry)
            assert told is not None
            assert told <= 1
            task.cancel()
            await asyncio.wait([task])
            assert age(registry) is None

    simulate(story())


def test_of_two_stores_of_a_kind_the_older_one_is_told() -> None:
    async def story() -> None:
        registry = CollectorRegistry()
        ages = StoreAges(registry)
        async with Cluster() as cluster, Client(cluster.access(), field_manager="test", user_agent="test") as client:
            stores = [Store(namespace_facts), Store(namespace_facts)]
            tasks = [asyncio.create_task(ages.follow(Reflector(client, NODES, each)).run()) for each in stores]
            await asyncio.sleep(1)
            stores[0].last_contact -= 100
            assert (age(registry) or 0) >= 100
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    simulate(story())


def test_watches_are_counted_by_why_they_ended() -> None:
    """The embedded cluster ends a watch, as the real one does, after the time that was asked for."""

    async def story() -> None:
        registry = CollectorRegistry()
        async with Cluster() as cluster, Client(cluster.access(), field_manager="test", user_agent="test") as client:
            ApiFigures(registry, client.traffic)
            task = asyncio.create_task(Reflector(client, NODES, Store(namespace_facts)).run())
            await asyncio.sleep(1300)
            task.cancel()
            await asyncio.wait([task])
        labels = {"kind": "nodes", "reason": Ending.AGREED}
        assert (registry.get_sample_value("ebbtide_watch_restarts_total", labels) or 0) >= 2

    simulate(story())


def requests(registry: CollectorRegistry, verb: str, resource: str, code: str) -> float | None:
    labels = {"verb": verb, "resource": resource, "code": code}
    return registry.get_sample_value("ebbtide_api_requests_total", labels)


def age(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("ebbtide_store_age_seconds", {"kind": "nodes"})
