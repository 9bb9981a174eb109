"""`ebbtide preflight` on a real control plane with what real clusters run beside it."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.config import Settings
from ebbtide.kube.resources import CONFIG_MAPS, MUTATING_WEBHOOKS, NAMESPACES
from ebbtide.vocabulary import PREVENT_TAINT_KEY, SIGNAL_TAINT_KEY
from reconciler.needs import needs
from tests.controlplane.command import Said, ebbtide
from tests.controlplane.program import configuration
from tests.controlplane.proxy import Drop, FaultProxy, Refuse
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

AUTOSCALER = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.31.0"
HANDLER = "public.ecr.aws/aws-ec2/aws-node-termination-handler:v1.25.0"
SIGNALLING = {"ENABLE_REBALANCE_MONITORING": "true", "TAINT_NODE": "true"}
POLICY = """apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig: [{{name: RemovePodsViolatingNodeTaints, args: {{excludedTaints: [{excluded}]}}}}]
  plugins: {{deschedule: {{enabled: [RemovePodsViolatingNodeTaints]}}}}
"""


@pytest.fixture
async def cluster(cluster: World) -> World:
    """Alone: what other tests ran goes with their namespaces, and takes a moment to."""

    async def alone() -> bool:
        names = [raw["metadata"]["name"] async for raw in cluster.client.list(NAMESPACES)]
        return not [name for name in names if name.startswith("t-") and name != cluster.namespace]

    await cluster.wait_until(alone, "the namespaces of other tests are gone")
    return cluster


def made_by(pool: str) -> dict[str, Any]:
    """Labels of a node of that managed node group."""
    return {"eks.amazonaws.com/nodegroup": pool}


async def autoscaler(cluster: World, *flags: str) -> None:
    command = ["./cluster-autoscaler", "--node-info-cache-expire-time=10m", *flags]
    await cluster.deployment("autoscaler", 1, containers=[{"name": "ca", "image": AUTOSCALER, "command": command}])


async def handler(cluster: World, **env: str) -> None:
    variables = [{"name": name, "value": value} for name, value in {**SIGNALLING, **env}.items()]
    container = {"name": "nth", "image": HANDLER, "env": variables}
    await cluster.daemon_set("nth", containers=[container], tolerations=[{"operator": "Exists"}])


async def policy(cluster: World, excluded: str) -> None:
    data = {"policy.yaml": POLICY.format(excluded=excluded)}
    await cluster.client.create(
        CONFIG_MAPS, {"metadata": {"name": "descheduler"}, "data": data}, namespace=cluster.namespace
    )


def by_status(said: Said, cluster: World) -> dict[str, set[str]]:
    """Names of the checks by status, of those findings that speak of this world or of nobody in particular."""
    found: dict[str, set[str]] = {}
    for check in said.document["checks"]:
        found.setdefault(check["status"], set()).add(check["name"])
    assert cluster.namespace in said.out
    return found


async def test_a_cluster_that_is_set_well_passes(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """Exit code 0, warnings told of, and not one request that changes anything."""
    for zone in "ab":
        await cluster.add_nodes(zone, 1, **made_by(f"{cluster.name}-{zone}"))
    await autoscaler(cluster)
    await handler(cluster)
    await policy(cluster, PREVENT_TAINT_KEY)
    said = await ebbtide(tmp_path / "one", cluster, proxy, "preflight", "--output", "json", text=configuration(cluster))
    assert said.code == 0, said.out
    found = by_status(said, cluster)
    assert found["warn"] == {"webhook"}
    assert {"cluster-version", "permissions", "node-group-zones", "autoscaler-taints", "descheduler"} <= found["pass"]
    assert f"DaemonSet {cluster.namespace}/nth, container nth (termination handler)" in seen(said, "signal-sources")
    assert {seen.method for seen in proxy.requests} <= {"GET", "POST"}
    assert all("accessreviews" in seen.path for seen in proxy.requests if seen.method == "POST")


def seen(said: Said, check: str) -> str:
    """What the only finding of that check says."""
    (found,) = [each for each in said.document["checks"] if each["name"] == check]
    return f"{found['status']}: {found['seen']}"


async def test_what_raises_signals_is_named(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """Nothing, a queue, the agent beside it, a handler as well; and a program that only its signal is seen of."""
    (node,) = await cluster.add_nodes("a", 1, **made_by(cluster.name))
    queue = {"queue-url": "https://sqs.eu-central-1.amazonaws.com/1/spot"}
    without, with_queue = configuration(cluster), configuration(cluster, **{"signals.sqs": queue})

    async def sources(text: str) -> str:
        said = await ebbtide(tmp_path, cluster, proxy, "preflight", "--output", "json", text=text)
        return seen(said, "signal-sources")

    assert (
        await sources(without)
        == "warn: neither ebbtide agent, nor a queue, nor a termination handler that taints was found"
    )
    await cluster.signal(node)
    assert f"{node} carry {SIGNAL_TAINT_KEY}" in await sources(without)
    assert await sources(with_queue) == "pass: signals are raised by the reconciler, from queue spot"
    agent = {"name": "agent", "image": "ghcr.io/example/ebbtide:1", "args": ["agent"]}
    await cluster.daemon_set("agent", containers=[agent])
    told = f"signals are raised by DaemonSet {cluster.namespace}/agent, container agent (ebbtide agent)"
    assert await sources(without) == f"pass: {told}"
    assert await sources(with_queue) == f"pass: {told}; the reconciler, from queue spot"
    await handler(cluster)
    assert (await sources(with_queue)).startswith("warn: signals are raised by 3 programs: DaemonSet")


async def test_every_setting_that_defeats_the_block_is_named(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """NR-63: exit code 1; each problem with object and cure, in words as in JSON."""
    for zone in "ab":
        await cluster.add_nodes(zone, 1, **made_by(cluster.name))
    karpenter: dict[str, Any] = {"karpenter.sh/nodepool": "default"}
    await cluster.add_nodes("b", 1, **karpenter)
    await autoscaler(
        cluster, "--startup-taint", PREVENT_TAINT_KEY, "--enforce-node-group-min-size", "--scan-interval=1m"
    )
    await handler(cluster, ENABLE_SQS_TERMINATION_DRAINING="true", TAINT_NODE="false")
    await policy(cluster, "other")
    await cluster.daemon_set("logs")
    await cluster.wait_until(lambda: cluster.pods("logs"), "the pods of the DaemonSet are there")
    text = configuration(cluster)
    said = await ebbtide(tmp_path / "one", cluster, proxy, "preflight", "--output", "json", text=text)
    assert said.code == 1
    found = by_status(said, cluster)
    assert found["fail"] == {"autoscaler-taints", "descheduler", "node-group-zones", "termination-handler"}
    assert {"autoscaler-min-size", "autoscaler-scan-interval", "daemon-sets", "karpenter"} <= found["warn"]
    assert all(check["cure"] and check["why"] for check in said.document["checks"] if check["status"] == "fail")

    words = await ebbtide(tmp_path / "two", cluster, proxy, "preflight", text=text)
    assert words.code == 1
    assert (
        f"Deployment {cluster.namespace}/autoscaler, container ca has --startup-taint={PREVENT_TAINT_KEY}" in words.out
    )
    assert f"ConfigMap {cluster.namespace}/descheduler, key policy.yaml" in words.out
    assert "cure: " in words.out


def rules(*left_out: str) -> list[dict[str, Any]]:
    """RBAC for all that the reconciler needs and that the checks read, without what has these words in it."""
    wanted = [
        (n.resource.group, f"{n.resource.plural}/{n.subresource}".rstrip("/"), n.verb)
        for n in needs(Settings(), "any", dry_run=False)
    ]
    read = [("apps", kind, "list") for kind in ("deployments", "statefulsets", "daemonsets")]
    read += [("", "configmaps", "list"), ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list")]
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for group, resource, verb in (*wanted, *read)
        if f"{verb} {resource}" not in left_out
    ]


async def test_the_permissions_of_another_account_can_be_looked_at(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """With `--as`, as kubectl does it: an administrator asks for the reconciler."""
    await cluster.account("ebbtide", rules("patch nodes"))
    account = f"system:serviceaccount:{cluster.namespace}:ebbtide"
    said = await ebbtide(tmp_path / "one", cluster, proxy, "preflight", "--output", "json", "--as", account)
    assert said.code == 1
    (check,) = [check for check in said.document["checks"] if check["name"] == "permissions"]
    assert check["status"] == "fail"
    assert check["objects"] == ["patch nodes (to taint a zone)"]
    assert account in check["seen"]


async def test_what_may_not_be_read_is_unknown(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """A refusal is no problem of the cluster: exit code 0 where nothing else is wrong."""
    await cluster.add_nodes("a", 1, **made_by(cluster.name))
    token = await cluster.account("looker", rules("list configmaps", "list daemonsets"))
    for left_out in ("configmaps", "daemonsets"):
        proxy.expect_forbidden("GET", f"/{left_out}")
    said = await ebbtide(
        tmp_path / "one", cluster, proxy, "preflight", "--output", "json", token=token, text=configuration(cluster)
    )
    assert said.code == 0, said.out
    unknown = {check["name"]: check["seen"] for check in said.document["checks"] if check["status"] == "unknown"}
    assert {"descheduler", "daemon-sets"} <= set(unknown)
    assert 'cannot list resource "configmaps"' in unknown["descheduler"]


async def test_an_authority_that_nobody_set_is_a_problem(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    entry = {
        "name": "zones.ebbtide.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"nobody": cluster.name}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    }
    name = f"{cluster.name}-webhook"
    metadata = {"name": name, "labels": {"ebbtide/ca-injection": "enabled"}}
    await cluster.client.create(MUTATING_WEBHOOKS, {"metadata": metadata, "webhooks": [entry]})
    try:
        said = await ebbtide(tmp_path / "one", cluster, proxy, "preflight")
    finally:
        await cluster.client.delete(MUTATING_WEBHOOKS, name)
    assert said.code == 1
    assert f"MutatingWebhookConfiguration {name}, entry zones.ebbtide.example.com has no caBundle" in said.out


@pytest.mark.parametrize("fault", [Drop(), Refuse(401)])
async def test_without_a_server_it_ends_with_3(
    fault: Drop | Refuse, tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    proxy.inject(fault)
    said = await ebbtide(tmp_path / "one", cluster, proxy, "preflight")
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith("ebbtide: ")
