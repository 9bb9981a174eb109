"""Admission on a real control plane: the promises of the webhook, seen from outside."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import DEPLOYMENTS, NAMESPACES, NODES, PODS, STATEFUL_SETS, Resource
from tests.controlplane.webhook import registered, webhook
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

Object = dict[str, Any]
REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", namespaced=True)
GUARD = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREVENT = {"key": vocabulary.PREVENT_TAINT_KEY, "value": "1772366400", "effect": "NoSchedule"}


@pytest.fixture
async def admission(tmp_path: Path, cluster: World) -> AsyncIterator[None]:
    """The webhook, registered; zone a of the world's group is blocked, zone b open."""
    nodes = await cluster.add_nodes("a", 2)
    await cluster.add_nodes("b", 2)
    await cluster.add_taint(nodes[0], PREVENT)
    async with webhook(cluster, tmp_path) as running, registered(cluster, running):
        yield


def excluded(pod: Object) -> list[list[str]]:
    """What each term of the required node affinity excludes."""
    terms = (pod["spec"].get("affinity") or {}).get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
    return [
        [zone for each in term.get("matchExpressions", ()) if each["operator"] == "NotIn" for zone in each["values"]]
        for term in terms
    ]


def shared_set(cluster: World, name: str, replicas: int = 3) -> Object:
    """A set of the shared pool that says nothing about placement itself."""
    labels = {vocabulary.POOL_LABEL: "shared", vocabulary.NODE_GROUP_PIN_LABEL: cluster.group}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": cluster.namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            },
        },
    }


async def revisions(cluster: World, name: str) -> list[str]:
    """The names of the set's revisions; a new one means that its pods are rolled."""
    found = [each async for each in cluster.client.list(REVISIONS, namespace=cluster.namespace)]
    return sorted(each["metadata"]["name"] for each in found if each["metadata"]["name"].startswith(name))


async def created(cluster: World, name: str, **pod: Any) -> Object:
    """A guarded pod as it was stored."""
    pod.setdefault("labels", GUARD)
    return await cluster.pod(name, **pod)


async def test_a_pools_set_is_pinned_its_pods_avoid_the_zone_and_are_free_again_when_the_block_is_over(
    cluster: World, admission: None
) -> None:
    """Template pinned without a word about zones; the real scheduler places none in the zone; all come up."""
    stored = await cluster.client.create(STATEFUL_SETS, shared_set(cluster, "worker"), namespace=cluster.namespace)
    template = stored["spec"]["template"]
    assert template["metadata"]["labels"][vocabulary.POOL_LABEL] == "shared"
    assert template["spec"]["nodeSelector"] == {vocabulary.NODE_GROUP_LABEL: cluster.group}
    assert [each["value"] for each in template["spec"]["tolerations"]] == [cluster.group]
    assert "nodeAffinity" not in template["spec"]["affinity"]
    assert "annotations" not in template["metadata"]
    pods = await cluster.ready_pods("worker", 3)
    assert {await cluster.zone_of(pod) for pod in pods} == {"b"}
    for pod in pods:
        assert excluded(pod) == [["a"]]
        assert pod["metadata"]["annotations"][vocabulary.BLOCKED_ZONES_ANNOTATION] == "a"

    before = await revisions(cluster, "worker")
    await cluster.client.patch_merge(
        STATEFUL_SETS, "worker", {"metadata": {"annotations": {"x": "y"}}}, namespace=cluster.namespace
    )
    for node in [
        n for n in await nodes_of(cluster, "a") if vocabulary.PREVENT_TAINT_KEY in await cluster.taint_keys(n)
    ]:
        await cluster.drop_taint(node, vocabulary.PREVENT_TAINT_KEY)
    await eventually_free(cluster)
    await cluster.client.patch_merge(STATEFUL_SETS, "worker", {"spec": {"replicas": 4}}, namespace=cluster.namespace)
    pods = await cluster.ready_pods("worker", 4)
    newest = next(pod for pod in pods if pod["metadata"]["name"] == "worker-3")
    assert excluded(newest) == []
    assert await revisions(cluster, "worker") == before


async def nodes_of(cluster: World, zone: str) -> list[str]:
    selector = f"tests.ebbtide/world={cluster.name},{vocabulary.ZONE_LABEL}={zone}"
    return [node["metadata"]["name"] async for node in cluster.client.list(NODES, label_selector=selector)]


async def eventually_free(cluster: World) -> None:
    """The webhook has seen the end of the block."""
    body = {
        "metadata": {"generateName": "probe-", "labels": dict(GUARD)},
        "spec": {
            "nodeSelector": {vocabulary.NODE_GROUP_LABEL: cluster.group},
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    path = f"/api/v1/namespaces/{cluster.namespace}/pods"

    async def free() -> bool:
        answer = await cluster.client.request("POST", path, params={"dryRun": "All"}, body=body)
        return answer.status == 201 and excluded(answer.json()) == []

    await cluster.wait_until(free, "new pods are free again")


async def test_a_set_that_was_there_before_is_not_rolled_by_an_update_that_leaves_its_template_alone(
    tmp_path: Path, cluster: World
) -> None:
    """Created while there was no webhook: scale, annotations and status change nothing; a new image pins it."""
    nodes = await cluster.add_nodes("a", 1)
    await cluster.add_nodes("b", 1)
    await cluster.client.create(STATEFUL_SETS, shared_set(cluster, "old", 1), namespace=cluster.namespace)
    await cluster.add_taint(nodes[0], PREVENT)
    async with webhook(cluster, tmp_path) as running, registered(cluster, running):
        before = await revisions(cluster, "old")
        for change in ({"spec": {"replicas": 2}}, {"metadata": {"annotations": {"x": "y"}}}):
            stored = await cluster.client.patch_merge(STATEFUL_SETS, "old", change, namespace=cluster.namespace)
            assert "nodeSelector" not in stored["spec"]["template"]["spec"]
        await cluster.ready_pods("old", 2)
        assert await revisions(cluster, "old") == before
        image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "newer"}]}}}}
        stored = await cluster.client.patch_merge(STATEFUL_SETS, "old", image, namespace=cluster.namespace)
        assert stored["spec"]["template"]["spec"]["nodeSelector"] == {vocabulary.NODE_GROUP_LABEL: cluster.group}


async def test_two_terms_a_generated_name_and_null_affinity(cluster: World, admission: None) -> None:
    """Shapes on which patches break."""
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in ("kubernetes.io/hostname", "x")]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    assert excluded(await created(cluster, "two-terms", affinity=affinity)) == [["a"], ["a"]]
    assert excluded(await created(cluster, "null", affinity=None)) == [["a"]]
    unnamed = {
        "metadata": {"generateName": "web-", "labels": dict(GUARD)},
        "spec": {
            "nodeSelector": {vocabulary.NODE_GROUP_LABEL: cluster.group},
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    assert excluded(await cluster.client.create(PODS, unnamed, namespace=cluster.namespace)) == [["a"]]


async def test_a_large_object(cluster: World, admission: None) -> None:
    """1.2 MB, near to what etcd takes."""
    env = [{"name": f"V{number}", "value": "x" * 10_000} for number in range(120)]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "large", "namespace": cluster.namespace, "labels": dict(GUARD)},
        "spec": {
            "nodeSelector": {vocabulary.NODE_GROUP_LABEL: cluster.group},
            "containers": [{"name": "main", "image": "none", "env": env}],
        },
    }
    await kubectl(cluster, "create", "-f", "-", stdin=body)
    stored = await cluster.client.get(PODS, "large", namespace=cluster.namespace)
    assert excluded(stored) == [["a"]]
    assert stored["spec"]["containers"][0]["env"] == env


async def test_who_is_guarded_and_who_is_not(cluster: World, admission: None) -> None:
    """By label, by namespace, opted out, and never DaemonSets or mirror pods."""
    assert excluded(await created(cluster, "plain", labels={})) == []
    await cluster.client.patch_merge(NAMESPACES, cluster.namespace, {"metadata": {"labels": dict(GUARD)}})

    async def guarded() -> bool:
        pod = await cluster.client.create(
            PODS,
            {
                "metadata": {"generateName": "plain-"},
                "spec": {
                    "nodeSelector": {vocabulary.NODE_GROUP_LABEL: cluster.group},
                    "containers": [{"name": "main", "image": "none"}],
                },
            },
            namespace=cluster.namespace,
        )
        return excluded(pod) == [["a"]]

    await cluster.wait_until(guarded, "the webhook knows that the namespace is guarded")
    assert excluded(await created(cluster, "both-ways")) == [["a"]]
    assert excluded(await created(cluster, "out", labels={vocabulary.GUARD_LABEL: "disabled"})) == []
    mirror = await created(cluster, "mirror", annotations={vocabulary.MIRROR_POD_ANNOTATION: "x"}, nodeName="nowhere")
    assert excluded(mirror) == []
    await cluster.daemon_set("agent")
    (agents,) = [await cluster.wait_until(lambda: cluster.pods("agent"), "pods of the DaemonSet")]
    assert all(vocabulary.BLOCKED_ZONES_ANNOTATION not in pod["metadata"].get("annotations", {}) for pod in agents)


async def kubectl(cluster: World, *words: str, stdin: Object | None = None, may_fail: bool = False) -> str:
    """What kubectl prints; a failure is told with its words."""
    process = await asyncio.create_subprocess_exec(
        *(str(cluster.plane.binaries["kubectl"]), "--kubeconfig", str(cluster.plane.kubeconfig), *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, errors = await process.communicate(json.dumps(stdin).encode() if stdin else None)
    assert process.returncode in ((0, 1) if may_fail else (0,)), errors.decode()
    return told.decode()


async def test_dry_run_diff_and_server_side_apply(cluster: World, admission: None) -> None:
    """A dry run shows the pinning and stores nothing; a second apply changes nothing; diff finds no difference."""
    body = shared_set(cluster, "applied", 1)
    shown = json.loads(await kubectl(cluster, "apply", "--dry-run=server", "-o", "json", "-f", "-", stdin=body))
    assert shown["spec"]["template"]["spec"]["nodeSelector"] == {vocabulary.NODE_GROUP_LABEL: cluster.group}
    assert not [each async for each in cluster.client.list(STATEFUL_SETS, namespace=cluster.namespace)]

    await kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=body)
    first = await cluster.client.get(STATEFUL_SETS, "applied", namespace=cluster.namespace)
    await kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=body)
    again = await cluster.client.get(STATEFUL_SETS, "applied", namespace=cluster.namespace)
    assert again["metadata"]["generation"] == first["metadata"]["generation"]
    assert await kubectl(cluster, "diff", "--server-side", "-f", "-", stdin=body, may_fail=True) == ""
    await kubectl(cluster, "apply", "-f", "-", stdin={**shared_set(cluster, "classic", 1)})
    assert await kubectl(cluster, "diff", "-f", "-", stdin=shared_set(cluster, "classic", 1), may_fail=True) == ""


async def test_a_deployments_pods_come_up_in_the_open_zone(cluster: World, admission: None) -> None:
    """Any opted-in workload, by the pods that its controller makes."""
    await cluster.deployment("web", 3, labels=dict(GUARD))
    pods = await cluster.ready_pods("web", 3)
    assert {await cluster.zone_of(pod) for pod in pods} == {"b"}
    assert (await cluster.client.get(DEPLOYMENTS, "web", namespace=cluster.namespace))["spec"]["template"]["spec"].get(
        "affinity"
    ) is None
