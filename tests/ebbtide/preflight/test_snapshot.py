"""Reading a cluster for the checks, on an embedded one: from the objects to the findings."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from ebbtide.config import Settings
from ebbtide.errors import ClusterAccessError
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Unreachable
from ebbtide.kube.permissions import Need
from ebbtide.kube.resources import CONFIG_MAPS, NODES
from ebbtide.preflight.decide import decide
from ebbtide.preflight.registered import Probe
from ebbtide.preflight.snapshot import Asked, Facts, read
from ebbtide.preflight.unread import Unread
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, Delay, Drop, When
from ebbtide.sim.kinds import DAEMON_SETS
from ebbtide.sim.time import simulate
from tests.ebbtide.preflight.builders import AUTOSCALER_IMAGE, HANDLER_IMAGE, KEY, NOW

POLICY = "kind: DeschedulerPolicy\nstrategies: {RemovePodsViolatingNodeTaints: {enabled: true}}\n"
LABELS = {"eks.amazonaws.com/nodegroup": "g"}


def controlled(kind: str, name: str, containers: list[Mapping[str, Any]], **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}
    body: dict[str, Any] = {"selector": selector, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "kube-system"}, "spec": body}


def furnish(cluster: Cluster) -> None:
    """A cluster on which much is wrong."""
    autoscaler = {"name": "ca", "image": AUTOSCALER_IMAGE, "args": ["cluster-autoscaler", f"--startup-taint={KEY}"]}
    handler = {
        "name": "nth",
        "image": HANDLER_IMAGE,
        "env": [{"name": "ENABLE_SQS_TERMINATION_DRAINING", "value": "1"}],
    }
    cluster.create(
        controlled("Deployment", "cluster-autoscaler", [autoscaler], replicas=1),
        controlled("StatefulSet", "nth", [handler], replicas=1, serviceName="x"),
        controlled("DaemonSet", "logs", [{"name": "logs", "image": "x/logs:1"}]),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "policy", "namespace": "kube-system"},
            "data": {"policy.yaml": POLICY, "other": "DeschedulerPolicy is what this is not"},
        },
        objects.node("a1", group="g", zone="a", labels=LABELS),
        objects.node("b1", group="g", zone="b", labels=LABELS),
        objects.node("k1", group="g", zone="a", labels={"karpenter.sh/provisioner-name": "default"}),
    )
    daemon = cluster.storage.get(DAEMON_SETS, "logs", "kube-system")
    owner = {
        "kind": "DaemonSet",
        "apiVersion": "apps/v1",
        "name": "logs",
        "uid": daemon["metadata"]["uid"],
        "controller": True,
    }
    cluster.create(
        pod("logs-x", [{"name": "logs", "image": "x/logs:1"}], ownerReferences=[owner]),
        pod("agent", [{"name": "agent", "image": "x/ebbtide:1", "command": ["ebbtide", "agent"]}]),
    )


def pod(name: str, containers: list[Mapping[str, Any]], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", **metadata},
        "spec": {"nodeName": "a1", "containers": containers},
    }


def play(story: Callable[[Cluster, Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            Cluster() as cluster,
            Client(cluster.access(), field_manager="test", user_agent="test") as client,
        ):
            furnish(cluster)
            await story(cluster, client)

    simulate(main())


async def unasked(namespace: str) -> tuple[str, list[str]]:
    raise AssertionError(f"nothing is registered, and a pod is created in {namespace}")


async def look(client: Client, probe: Probe = unasked) -> Facts:
    asked = Asked(client, "context test", [Need("list", NODES, "to know zones")])
    return await read(client, Settings(), asked, probe)


def failing(facts: Facts) -> set[str]:
    return {each.check for each in decide(facts, Settings(), NOW) if each.status == "fail"}


def test_from_the_objects_of_a_cluster_to_what_is_wrong_with_it() -> None:
    async def story(_cluster: Cluster, client: Client) -> None:
        facts = await look(client)
        assert failing(facts) == {
            "autoscaler-taints",
            "termination-handler",
            "agent",
            "descheduler",
            "node-group-zones",
        }
        findings = {each.check: each for each in decide(facts, Settings(), NOW)}
        assert findings["karpenter"].objects == ("k1",)
        assert findings["daemon-sets"].objects == ("kube-system/logs",)
        assert "Pod kube-system/agent" in findings["signal-sources"].seen
        assert {verb.verb for verb in client.sent} <= {"list", "create"}

    play(story)


@pytest.mark.parametrize(
    ("path", "unknown"),
    [
        ("/api/v1/nodes", {"node-labels", "node-group-zones", "karpenter", "daemon-sets"}),
        ("/api/v1/pods", {"daemon-sets", "signal-sources"}),
        ("/api/v1/configmaps", {"descheduler"}),
        ("/apis/apps/v1/daemonsets", {"daemon-sets"}),
        ("/apis/apps/v1/deployments", {"autoscaler"}),
        ("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", {"webhook"}),
        ("/api/v1/namespaces", {"namespace"}),
        ("/version", {"cluster-version"}),
    ],
)
def test_what_may_not_be_read_is_unknown_and_the_rest_is_judged(path: str, unknown: set[str]) -> None:
    async def story(cluster: Cluster, client: Client) -> None:
        cluster.faults.inject(Answer(403, message="by order of the test"), When("GET", path))
        findings = decide(await look(client), Settings(), NOW)
        assert {each.check for each in findings if each.status == "unknown"} == unknown
        assert all("403" in each.seen for each in findings if each.status == "unknown")

    play(story)


def test_without_a_server_there_is_nothing_to_say() -> None:
    async def story(cluster: Cluster, client: Client) -> None:
        cluster.faults.inject(Drop(), When("GET"))
        with pytest.raises(Unreachable):
            await look(client)

    play(story)


def test_credentials_that_are_not_accepted_end_it() -> None:
    async def story(cluster: Cluster, client: Client) -> None:
        cluster.faults.inject(Answer(401), When("GET"))
        with pytest.raises(ClusterAccessError, match="401"):
            await look(client)

    play(story)


def test_large_lists_are_read_in_pages() -> None:
    async def story(cluster: Cluster, client: Client) -> None:
        for number in range(300):
            cluster.create(objects.node(f"n{number}", group="g", zone="a"))
        for number in range(30):
            await client.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, namespace="default")
        facts = await look(client)
        assert not isinstance(facts.nodes, Unread)
        assert len(facts.nodes) == 303
        lists = {verb.resource: count for verb, count in client.sent.items() if verb.verb == "list"}
        assert (lists["nodes"], lists["configmaps"]) == (2, 2)

    play(story)


def test_parts_are_read_at_the_same_time() -> None:
    """A slow server is waited for once, not once for each part."""

    async def story(cluster: Cluster, client: Client) -> None:
        cluster.faults.inject(Delay(before=5), When("GET", "/api*"))
        begun = asyncio.get_running_loop().time()
        await look(client)
        assert asyncio.get_running_loop().time() - begun < 12

    play(story)
