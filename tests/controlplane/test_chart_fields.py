"""Who owns which field of what the chart installs: an upgrade neither meets what the programs have written, nor loses
or doubles what it installs itself."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from ebbtide import vocabulary
from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import MUTATING_WEBHOOKS
from tests.chart.fields import has, written
from tests.controlplane.expectations import all_prevented
from tests.controlplane.installation import Release
from tests.controlplane.test_webhook import excluded, kubectl
from tests.controlplane.world import Object, World

pytestmark = pytest.mark.controlplane

GUARD = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}
OURS = (vocabulary.FIELD_MANAGER_RECONCILER, vocabulary.FIELD_MANAGER_CERTS, vocabulary.FIELD_MANAGER_AGENT)
WAYS_IN = ("guarded-pods", "pods", "stateful-sets")
DROPPED = "guarded-pods"
BUNDLE = ("clientConfig", "caBundle")

# Lists that servers and Helm merge in different ways, with an entry that goes and comes back: of texts, of items by
# their names, and of items that are replaced as a whole.
MORE: Mapping[str, Any] = {
    "webhook": {
        "excludedNamespaces": ["tools", "more-tools"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "NO_PROXY", "value": ".svc"}],
        "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
    },
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}, {"podSelector": {}}]},
}
LESS: Mapping[str, Any] = {
    "webhook": {
        "guardedPods": {"enabled": False},
        "excludedNamespaces": ["more-tools"],
        "extraEnv": [{"name": "NO_PROXY", "value": ".svc"}],
        "tolerations": [{"key": "b", "operator": "Exists"}],
    },
    "networkPolicy": {"enabled": True, "metricsFrom": [{"podSelector": {}}]},
}


@pytest.fixture(params=["helm4", "helm3"])
async def release(request: pytest.FixtureRequest, cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    made = Release(cluster, tmp_path, request.param)
    async with made.home():
        yield made


async def manifest(release: Release) -> list[Object]:
    """What Helm has installed."""
    said = await release.helm.run("get", "manifest", release.name, "--namespace", release.namespace)
    assert said.code == 0, said.err
    return [each for each in yaml.safe_load_all(said.out) if each]


async def live(release: Release, rendered: list[Object]) -> list[Object]:
    """The same objects as they are on the cluster; it is an error when one is not there."""
    asked = {"apiVersion": "v1", "kind": "List", "items": rendered}
    text = await kubectl(release.cluster, "get", "-f", "-", "-o", "json", "--show-managed-fields", stdin=asked)
    found: list[Object] = orjson.loads(text)["items"]
    return found


async def bundles(release: Release) -> dict[str, tuple[str, str]]:
    """UID and CA bundle of each way in that is registered; "" for one without."""
    found = {}
    for name in WAYS_IN:
        try:
            raw = await release.cluster.client.get(MUTATING_WEBHOOKS, f"{release.fullname}-{name}")
        except NotFound:
            continue
        (entry,) = raw["webhooks"]
        found[name] = raw["metadata"]["uid"], entry["clientConfig"].get("caBundle", "")
    return found


async def published(release: Release, count: int) -> dict[str, tuple[str, str]]:
    """The same, as soon as so many are registered and have a bundle, which is one for all."""

    async def done() -> dict[str, tuple[str, str]]:
        found = await bundles(release)
        told = {bundle for _, bundle in found.values()}
        return found if len(found) == count and len(told) == 1 and "" not in told else {}

    return await release.cluster.wait_until(done, f"{count} ways in have their bundle")


async def test_wh_57_what_the_programs_write_is_in_no_manifest(release: Release, cluster: World) -> None:
    """With everything at work: certificates made and published, a zone blocked, a pod kept out, a node tainted."""
    zone_a = await cluster.add_nodes("a", 1)
    await cluster.add_nodes("b", 1)
    await release.install(agent={"enabled": True}, config={"worker-scaler": {"run": True}})
    async with release.running("reconciler") as reconciler, release.running("webhook") as webhook:
        await release.ready(reconciler)
        await release.ready(webhook)
        await cluster.signal(zone_a[0], value="1700000000")
        await all_prevented(cluster, zone_a)
        await published(release, 3)
        assert excluded(await cluster.pod("guarded", labels=GUARD)) == [["a"]]
        rendered = await manifest(release)
        objects = await live(release, rendered)
    ours = [(each["metadata"]["name"], path) for each in objects for manager, path in written(each) if manager in OURS]
    theirs = {each["metadata"]["name"]: each for each in rendered if each["kind"] == MUTATING_WEBHOOKS.kind}
    assert {(name, path[-2:]) for name, path in ours} == {(name, BUNDLE) for name in theirs}
    assert [(name, path) for name, path in ours if has(theirs[name], path)] == []
    await release.uninstall()


async def test_wh_64_what_an_upgrade_drops_is_gone_and_what_it_brings_back_is_there_once(
    release: Release, cluster: World
) -> None:
    """A way in, and an entry of each kind of list. All the others stay as they are, with the bundles they have."""
    await cluster.add_nodes("a", 1)
    await release.install(**MORE)
    async with release.running("reconciler") as reconciler:
        await release.ready(reconciler)
        first = await published(release, 3)
        before = await live(release, await manifest(release))

        await release.upgrade(**LESS)
        assert await bundles(release) == {name: each for name, each in first.items() if name != DROPPED}
        assert listed(release, await live(release, await manifest(release))) == {
            "excluded": ["kube-system", release.namespace, "more-tools"],
            "environment": ["NO_PROXY"],
            "tolerations": ["b"],
            "metrics": 1,
        }

        await release.upgrade(**MORE)
        again = await published(release, 3)
        assert {**again, DROPPED: first[DROPPED]} == first
        assert again[DROPPED][1] == first[DROPPED][1]
        after = await live(release, await manifest(release))
    assert [of_users(each) for each in after] == [of_users(each) for each in before]
    await release.uninstall()


def listed(release: Release, objects: list[Object]) -> dict[str, Any]:
    """What is left in the lists of which an entry was dropped."""
    named = {(each["kind"], each["metadata"]["name"].removeprefix(f"{release.fullname}-")): each for each in objects}
    (entry,) = named[MUTATING_WEBHOOKS.kind, "pods"]["webhooks"]
    (excluded,) = entry["namespaceSelector"]["matchExpressions"]
    pod = named["Deployment", "webhook"]["spec"]["template"]["spec"]
    environment = [each["name"] for each in pod["containers"][0]["env"]]
    metrics = named["NetworkPolicy", "webhook"]["spec"]["ingress"][0]
    return {
        "excluded": excluded["values"],
        "environment": [each for each in environment if "PROXY" in each],
        "tolerations": [each["key"] for each in pod["tolerations"]],
        "metrics": len(metrics["from"]),
    }


def of_users(live: Object) -> Object:
    """An object without what the API server and its controllers count and note down in it."""
    counted = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
    metadata = {key: value for key, value in live["metadata"].items() if key not in counted}
    annotations = {**metadata.pop("annotations", {})}
    annotations.pop("deployment.kubernetes.io/revision", None)
    return {**live, "metadata": {**metadata, "annotations": annotations}, "status": None}
