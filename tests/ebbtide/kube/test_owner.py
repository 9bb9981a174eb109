"""What a process makes goes with the Deployment that it belongs to."""

from collections.abc import AsyncIterator

import pytest

from ebbtide.kube.client import Client
from ebbtide.kube.owner import Owner
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When

NAMESPACE = "ebbtide-system"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "ebbtide-reconciler", "namespace": NAMESPACE},
    "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}},
    },
}
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "1"}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster() as started:
        started.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        yield started


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(cluster.access(), field_manager="test", user_agent="test") as started:
        yield started


async def test_the_deployment_owns_what_is_made_beside_other_owners(cluster: Cluster, client: Client) -> None:
    (deployment,) = cluster.create(DEPLOYMENT)
    owner = Owner(client, NAMESPACE, "ebbtide-reconciler")
    owned = await owner.adopt({"name": "lease", "ownerReferences": [OTHER]})
    ours = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ebbtide-reconciler"}
    assert owned == {"name": "lease", "ownerReferences": [OTHER, ours | {"uid": deployment["metadata"]["uid"]}]}
    assert await owner.adopt(owned) == owned


async def test_without_a_name_nothing_is_owned_and_nobody_is_asked(client: Client) -> None:
    assert await Owner(client, NAMESPACE, "").adopt({"name": "lease"}) == {"name": "lease"}
    assert not client.traffic.sent


@pytest.mark.parametrize("reason", ["NotFound", "Forbidden"])
async def test_a_deployment_that_may_not_be_seen_is_done_without(reason: str, cluster: Cluster, client: Client) -> None:
    """It is not asked for again, so that a Lease does not wait for it."""
    cluster.faults.inject(Answer({"NotFound": 404, "Forbidden": 403}[reason], reason), When(path="*/deployments*"))
    owner = Owner(client, NAMESPACE, "ebbtide-reconciler")
    assert [await owner.adopt({"name": "lease"}) for _ in range(2)] == [{"name": "lease"}] * 2
    assert sum(client.traffic.sent.values()) == 1
