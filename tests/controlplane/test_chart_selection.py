"""Which objects the API server sends to the webhook as the chart registers it, whatever they lack.

Nobody answers: what is sent is refused, with the name of the entry, and what is not sent is created. A condition that
cannot be evaluated is a refusal as well.
"""

from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ebbtide import vocabulary
from ebbtide.kube.errors import BudgetRefused
from ebbtide.kube.resources import DEPLOYMENTS, NAMESPACES, PODS, STATEFUL_SETS, Resource
from tests.controlplane.installation import Release
from tests.controlplane.test_webhook import shared_set
from tests.controlplane.webhook import STRICTLY
from tests.controlplane.world import Object, World

pytestmark = pytest.mark.controlplane

POOL = {vocabulary.POOL_LABEL: vocabulary.POOL_DEDICATED}
GUARD = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}
OUT = {vocabulary.GUARD_LABEL: "disabled"}
NULLS = {"affinity": None, "nodeSelector": None, "tolerations": None, "securityContext": None, "volumes": None}

SENT: Mapping[str, Any] = {
    "with the label of a pool only": {"labels": POOL},
    "with a guard label only": {"labels": GUARD},
    "with a guard label and fields that are null": {"labels": GUARD, "annotations": None, **NULLS},
    "with a guard label that says nothing, of a pool": {"labels": {**POOL, vocabulary.GUARD_LABEL: ""}},
}
PASSED: Mapping[str, Any] = {
    "without labels": {},
    "with no labels": {"labels": {}},
    "with fields that are null": {"labels": None, "annotations": None, **NULLS},
    "with labels of others": {"labels": {"app": "web"}},
    "with a guard label that says nothing": {"labels": {vocabulary.GUARD_LABEL: ""}},
    "opted out": {"labels": OUT},
    "opted out, of a pool": {"labels": {**POOL, **OUT}},
}


@pytest.fixture
async def release(cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    """One that the test installs. It is removed whatever happens: it stands in the way of all pods of the cluster."""
    made = Release(cluster, tmp_path)
    async with made.home():
        try:
            yield made
        finally:
            await made.uninstall()


def pod(labels: object = ..., annotations: object = ..., **spec: Any) -> Object:
    """A pod with that in its metadata, where it is given."""
    metadata = {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value is not ...}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "any-", **metadata},
        "spec": {"containers": [{"name": "main", "image": "none"}], **spec},
    }


async def refusal(cluster: World, body: Object, resource: Resource = PODS, namespace: str = "") -> str:
    """Why it cannot be created, by dry run; "" where it can be."""
    path = resource.path(namespace or cluster.namespace)
    answer = await cluster.client.request("POST", path, params={"dryRun": "All"}, body=body)
    return "" if answer.status == 201 else str(answer.json()["message"])


async def sent(cluster: World, entry: str, body: Object, resource: Resource = PODS) -> None:
    """The API server asks that entry about it, as soon as it knows of the registration."""
    words = f'failed calling webhook "{entry}.ebbtide.dev"'

    async def asked() -> bool:
        return words in await refusal(cluster, body, resource)

    await cluster.wait_until(asked, f"{words}: {body['metadata']}")


async def test_wh_54_what_is_opted_in_is_sent_and_all_else_passes_whatever_it_lacks(
    release: Release, cluster: World
) -> None:
    """Pods and StatefulSets, also of kube-system; in a namespace that is guarded as a whole, what is not opted out."""
    await cluster.add_nodes("a", 1)
    await release.install(webhook=STRICTLY)
    bare = {**shared_set(cluster, "bare"), "metadata": {"name": "bare", "labels": None}}
    for fields in SENT.values():
        await sent(cluster, "pods", pod(**fields))
    await sent(cluster, "stateful-sets", shared_set(cluster, "set"), STATEFUL_SETS)
    assert {name: await refusal(cluster, pod(**fields)) for name, fields in PASSED.items()} == dict.fromkeys(PASSED, "")
    assert await refusal(cluster, bare, STATEFUL_SETS) == ""
    assert await refusal(cluster, pod(labels=GUARD), namespace="kube-system") == ""

    await cluster.client.patch_merge(NAMESPACES, cluster.namespace, {"metadata": {"labels": GUARD}})
    for fields in ({}, {"labels": None, **NULLS}, {"labels": {"app": "web"}}):
        await sent(cluster, "guarded-pods", pod(**fields))
    assert [await refusal(cluster, pod(labels=labels)) for labels in (OUT, {**POOL, **OUT})] == ["", ""]
    assert await refusal(cluster, bare, STATEFUL_SETS) == ""


async def test_wh_54_the_release_is_never_asked_about_its_own_pods(release: Release, cluster: World) -> None:
    """Although its namespace is guarded, and its pods carry all labels that there are: all are made anew, while nobody
    else's pod is created."""
    await cluster.add_nodes("a", 1)
    await cluster.client.patch_merge(NAMESPACES, release.namespace, {"metadata": {"labels": GUARD}})
    await release.install(webhook=STRICTLY, commonLabels={**POOL, **GUARD}, agent={"enabled": True})
    await sent(cluster, "pods", pod(labels=POOL))
    await cluster.client.patch_merge(NAMESPACES, cluster.namespace, {"metadata": {"labels": GUARD}})
    await sent(cluster, "guarded-pods", pod())
    before = await _own(release)
    assert {component for component, _ in before} == {"webhook", "reconciler", "agent"}
    for _, name in before:
        await cluster.client.delete(PODS, name, namespace=release.namespace)

    async def made_anew() -> bool:
        now = await _own(release)
        return len(now) == len(before) and not now & before

    await cluster.wait_until(made_anew, "all pods of the release are there anew")


async def test_wh_55_a_single_replica_lets_its_node_be_drained(release: Release, cluster: World) -> None:
    """Its budget permits the eviction of the only pod that there is, and another comes."""
    await cluster.add_nodes("a", 1)
    await release.install(webhook={"replicas": 1}, reconciler={"replicas": 1})
    for component in ("webhook", "reconciler"):
        deployment = await cluster.client.get(
            DEPLOYMENTS, f"{release.fullname}-{component}", namespace=release.namespace
        )
        assert deployment["spec"]["replicas"] == 1
        (pod,) = await release.pods(component)
        await cluster.wait_until(partial(_evicted, release, pod), f"the pod of the {component} is evicted")
        await cluster.wait_until(partial(_another, release, component, pod), f"there is another {component}")


async def _evicted(release: Release, pod: Object) -> bool:
    """Not before the disruption controller has counted the pods."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    try:
        await release.cluster.client.evict(name, namespace=release.namespace, uid=uid)
    except BudgetRefused:
        return False
    return True


async def _another(release: Release, component: str, gone: Object) -> bool:
    uids = [each["metadata"]["uid"] for each in await release.pods(component)]
    return len(uids) == 1 and uids != [gone["metadata"]["uid"]]


async def _own(release: Release) -> set[tuple[str, str]]:
    """Component and name of the Ready pods of the release."""
    return {
        (component, each["metadata"]["name"])
        for component in ("webhook", "reconciler", "agent")
        for each in await release.pods(component)
    }
