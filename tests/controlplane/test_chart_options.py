"""What can be switched on in the chart, on a real API server."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import PODS, Resource
from tests.controlplane.definitions import defined
from tests.controlplane.everything import everything
from tests.controlplane.installation import Release
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import World
from tests.ebbtide.agent.service import NOTICE_AT, REBALANCE_ONLY, serving

pytestmark = pytest.mark.controlplane

GUARD = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}
PREVENT = {"key": vocabulary.PREVENT_TAINT_KEY, "value": "1772366400", "effect": "NoSchedule"}
MONITORING = tuple(
    Resource("monitoring.coreos.com", "v1", f"{kind.lower()}s", kind, namespaced=True)
    for kind in ("ServiceMonitor", "PrometheusRule")
)
EVERYTHING: Mapping[str, Any] = {
    "agent": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "admissionPolicy": {"enabled": True},
}


@pytest.fixture
async def release(cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    made = Release(cluster, tmp_path)
    async with made.home():
        yield made


@pytest.fixture
async def monitoring(cluster: World) -> AsyncIterator[None]:
    """The kinds that the Prometheus Operator brings."""
    async with defined(cluster, *MONITORING):
        yield


async def test_everything_is_taken_by_the_api_server_and_goes_again(
    release: Release, cluster: World, monitoring: None
) -> None:
    """In a namespace that lets in only what is "restricted"; also with the worker scaler in a namespace of its own."""
    await cluster.add_nodes("a", 1)
    before = await everything(cluster.plane)
    await release.install(**EVERYTHING, config={"worker-scaler": {"run": True}})
    installed = {name[0] for name in await everything(cluster.plane) - before}
    assert {
        "prometheusrules.monitoring.coreos.com",
        "daemonsets.apps",
        "networkpolicies.networking.k8s.io",
    } <= installed
    assert len(await release.pods("agent")) == 1
    await release.uninstall()

    async def gone() -> bool:
        return {name for name in await everything(cluster.plane) - before if name[1] != "kube-node-lease"} == set()

    await cluster.wait_until(gone, "nothing is left of it")


async def test_a_pod_that_may_still_go_to_a_blocked_zone_is_warned_of(release: Release, cluster: World) -> None:
    """Where the webhook was not asked; not one that is kept out, that tolerates the taint, or that nobody guards."""
    (node,) = await cluster.add_nodes("a", 1)
    await cluster.add_taint(node, PREVENT)
    await cluster.add_nodes("b", 1)
    await release.install(admissionPolicy={"enabled": True}, webhook={"replicas": 0})

    async def warned() -> bool:
        return "zone a is blocked" in await _warnings(cluster)

    await cluster.wait_until(warned, "the policy is in force")
    assert await _warnings(cluster, affinity=_keeps_out("a")) == ""
    assert "zone a is blocked" in await _warnings(cluster, affinity=_keeps_out("b"))
    assert await _warnings(cluster, tolerations=[{"key": PREVENT["key"], "operator": "Exists"}]) == ""
    assert await _warnings(cluster, labels={}) == ""
    assert await _warnings(cluster, nodeSelector={vocabulary.NODE_GROUP_LABEL: "another"}) == ""
    await cluster.drop_taint(node, PREVENT["key"])

    async def silent() -> bool:
        return await _warnings(cluster) == ""

    await cluster.wait_until(silent, "the zone is open")
    await release.uninstall()


async def test_the_agent_taints_its_node_with_the_account_of_the_chart(
    release: Release, cluster: World, proxy: FaultProxy
) -> None:
    """And may write no other, although its role has no names: the policy that comes with it holds it to its own."""
    await cluster.add_nodes("a", 1)
    (other,) = await cluster.add_nodes("b", 1)
    await release.install(agent={"enabled": True})
    (pod,) = [each for each in await release.pods("agent") if each["spec"]["nodeName"] != other]
    container = pod["spec"]["containers"][0]
    async with serving(documents=dict(REBALANCE_ONLY)) as metadata:
        environ = {"EBBTIDE__SIGNALS__IMDS__ENDPOINT": metadata.url}
        async with release.contained(pod, container, **environ) as agent:
            await release.ready(agent)

            async def told() -> bool:
                taints = {taint["key"]: taint.get("value") for taint in await cluster.taints(pod["spec"]["nodeName"])}
                return taints.get(vocabulary.SIGNAL_TAINT_KEY) == str(int(NOTICE_AT))

            await cluster.wait_until(told, "\n".join(agent.log))

            async def used() -> bool:
                return await release.unused("agent") == set()

            await cluster.wait_until(used, "all that the agent may do was done")
        proxy.expect_forbidden("PATCH", f"/nodes/{other}")
        async with release.contained(pod, container, proxy, **environ, NODE_NAME=other) as elsewhere:
            assert await elsewhere.process.wait() == 3
    assert "its own" in "\n".join(elsewhere.log)
    assert vocabulary.SIGNAL_TAINT_KEY not in await cluster.taint_keys(other)
    await release.uninstall()


async def _warnings(cluster: World, **pod: Any) -> str:
    """What whoever creates a guarded pod is told, by dry run."""
    pod.setdefault("labels", GUARD)
    body = {"apiVersion": "v1", "kind": "Pod", **cluster.template("probe", **pod)}
    body["metadata"]["name"] = "probe"
    path = PODS.path(cluster.namespace)
    answer = await cluster.client.request("POST", path, params={"dryRun": "All"}, body=body)
    assert answer.status == 201, answer.body
    return answer.headers.get("warning", "")


def _keeps_out(zone: str) -> dict[str, Any]:
    expression = {"key": vocabulary.ZONE_LABEL, "operator": "NotIn", "values": [zone]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
