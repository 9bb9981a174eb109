"""From AWS's own mock of the metadata service to a pod in the other zone, on a real control plane."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.agent.act import OwnNode
from ebbtide.agent.main import Orders
from ebbtide.agent.main import run as run_agent
from ebbtide.agent.report import Stored
from ebbtide.errors import ClusterAccessError
from ebbtide.kube.errors import Forbidden
from ebbtide.kube.resources import EVENTS, NODES
from ebbtide.kube.slim import SlimClient
from ebbtide.notices import Kind, Notice
from ebbtide.service.listening import bind
from ebbtide.vocabulary import INTERRUPTION_NOTICE_ANNOTATION, SIGNAL_TAINT_KEY
from tests.controlplane.expectations import all_in_zone, all_prevented, stand_on
from tests.controlplane.metadata import Way, metadata
from tests.controlplane.program import running
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import FOREIGN_TAINT, World

pytestmark = pytest.mark.controlplane

PAGE = Path(__file__).resolve().parents[2] / "docs" / "signals.md"
# What `docs/signals.md` calls them; a test has its own.
NAME, NAMESPACE = "ebbtide-agent", "ebbtide-system"
_COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
LONG_AGO = "2026-03-01T11:58:00Z"
NOTICE = Notice(Kind.REBALANCE, 1772366280.0)


def manifest(world: World) -> list[dict[str, Any]]:
    """The objects of the page, with names of the world's own."""
    text = "\n---\n".join(re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL))
    named = text.replace(f":{NAMESPACE}:{NAME}", f":{world.namespace}:{NAME}")
    found = [each for each in yaml.safe_load_all(named) if each["kind"] in _COLLECTIONS]
    for each in found:
        _rename(each, world)
    return found


def _rename(body: dict[str, Any], world: World) -> None:
    if body["kind"] == "ServiceAccount":
        body["metadata"]["namespace"] = world.namespace
        return
    body["metadata"]["name"] = f"{world.name}-{NAME}"
    for subject in body.get("subjects", ()):
        subject["namespace"] = world.namespace
    if "roleRef" in body:
        body["roleRef"]["name"] = body["metadata"]["name"]
    if "policyName" in body.get("spec", {}):
        body["spec"]["policyName"] = body["metadata"]["name"]


@asynccontextmanager
async def installed(world: World) -> AsyncIterator[None]:
    """The manifest of the page, until the block ends."""

    async def call(method: str, path: str, body: object = None) -> None:
        await asyncio.to_thread(world.plane.call, method, path, body)

    paths = []
    try:
        for body in manifest(world):
            path = _COLLECTIONS[body["kind"]].format(namespace=world.namespace)
            await call("POST", path, body)
            paths.append(f"{path}/{body['metadata']['name']}")
        yield
    finally:
        for path in reversed(paths):
            await call("DELETE", path)


async def account_of_pod(world: World, node: str, folder: Path) -> Path:
    """The folder of the service account of an agent's pod on that node, as its kubelet would mount it."""
    pod = await world.pod(f"agent-{node}", nodeName=node, serviceAccountName=NAME, tolerations=[{"operator": "Exists"}])
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    path = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/{NAME}/token"
    answer = await asyncio.to_thread(world.plane.call, "POST", path, {"spec": {"boundObjectRef": bound}})
    account = folder / f"account-{node}"
    account.mkdir()
    (account / "token").write_text(answer["status"]["token"])
    (account / "ca.crt").write_bytes(world.plane.ca_file.read_bytes())
    return account


@asynccontextmanager
async def agent(world: World, account: Path, node: str, service: Way) -> AsyncIterator[None]:
    """The agent of that node, in this process, with the client that it has in a pod."""
    stopping = asyncio.Event()
    orders = Orders(node, SIGNAL_TAINT_KEY, service.url, 0.2, "127.0.0.1", 0)
    client = SlimClient(world.plane.server, account, "ebbtide-agent/test")
    with bind("127.0.0.1", 0) as listening:
        async with asyncio.TaskGroup() as group:
            group.create_task(run_agent(orders, client, listening, stopping), name="agent")
            try:
                yield
            finally:
                stopping.set()


async def test_a_recommendation_moves_the_pods_to_the_other_zone(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """Mock, agent, taint, reconciler, eviction, other zone: with tokens, a delay, and errors in between."""
    zone_a = await cluster.add_nodes("a", 2, taints=[FOREIGN_TAINT])
    zone_b = await cluster.add_nodes("b", 2, taints=[FOREIGN_TAINT])
    await stand_on(cluster, zone_a[0], [zone_a[1], *zone_b])
    flags = ("--rebalance-delay-sec", "2", "--rebalance-rec-time", LONG_AGO, "--mock-delay-sec", "86400")
    async with (
        installed(cluster),
        metadata(tmp_path, *flags) as service,
        running(tmp_path, cluster, proxy),
    ):
        service.troubles = [503, 401, 500]
        account = await account_of_pod(cluster, zone_a[0], tmp_path)
        async with agent(cluster, account, zone_a[0], service):
            await all_prevented(cluster, zone_a)
            taints = await cluster.taints(zone_a[0])
            assert taints[0] == FOREIGN_TAINT
            assert [taint["value"] for taint in taints if taint["key"] == SIGNAL_TAINT_KEY] == ["1772366280"]
            assert not (await cluster.client.get(NODES, zone_a[0]))["spec"].get("unschedulable")
            await all_in_zone(cluster, "tikv", 3, "b")
            await all_in_zone(cluster, "tidb", 2, "b")
        statuses = [status for _, _, status in service.asked]
        assert {503, 500, 401, 404, 200} <= set(statuses)


async def test_an_interruption_does_not_wait_for_the_age_of_a_signal(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """One node, two minutes left: its zone is blocked and its pods go at once; the event says why."""
    zone_a = await cluster.add_nodes("a", 2)
    zone_b = await cluster.add_nodes("b", 2)
    await stand_on(cluster, zone_a[0], [zone_a[1], *zone_b])
    flags = ("--rebalance-delay-sec", "86400", "--action", "terminate")
    async with (
        installed(cluster),
        metadata(tmp_path, *flags) as service,
        running(tmp_path, cluster, proxy),
    ):
        account = await account_of_pod(cluster, zone_a[0], tmp_path)
        async with agent(cluster, account, zone_a[0], service):
            await all_prevented(cluster, zone_a)
            await all_in_zone(cluster, "tikv", 3, "b")
        annotations = (await cluster.client.get(NODES, zone_a[0]))["metadata"]["annotations"]
        assert INTERRUPTION_NOTICE_ANNOTATION in annotations

        async def told() -> bool:
            events = [each async for each in cluster.client.list(EVENTS) if each["regarding"].get("name") == zone_a[0]]
            return "InterruptionNotice" in {event["reason"] for event in events}

        await cluster.wait_until(told, "an event says why")


def _patch(*operations: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(operations)


FORBIDDEN = {
    "cordon": _patch({"op": "add", "path": "/spec/unschedulable", "value": True}),
    "taint": _patch({"op": "add", "path": "/spec/taints/-", "value": {"key": "x", "effect": "NoExecute"}}),
    "untaint": _patch({"op": "remove", "path": "/spec/taints/0"}),
    "another effect": _patch(
        {"op": "add", "path": "/spec/taints/-", "value": {"key": SIGNAL_TAINT_KEY, "effect": "NoExecute"}}
    ),
    "label": _patch({"op": "add", "path": "/metadata/labels/x", "value": "y"}),
    "annotation": _patch({"op": "add", "path": "/metadata/annotations", "value": {"x": "y"}}),
    "finalizer": _patch({"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]}),
}


async def test_the_policy_holds_an_agent_to_its_own_node_and_to_signals(tmp_path: Path, cluster: World) -> None:
    """The manifest of the page: all that the agent does is allowed, and what else its role would let it do is not."""
    own, other = await cluster.add_nodes("a", 2, taints=[FOREIGN_TAINT])
    async with installed(cluster):
        client = SlimClient(cluster.plane.server, await account_of_pod(cluster, own, tmp_path), "ebbtide-agent/test")
        mine = OwnNode(client, own, SIGNAL_TAINT_KEY)

        async def in_force() -> bool:
            """A policy is known to the API server a moment after it was made."""
            answer = await client.request("PATCH", NODES.path(name=own), body=FORBIDDEN["label"], **_DRY)
            return answer.status == 403

        await cluster.wait_until(in_force, "the policy is in force")
        for what, patch in FORBIDDEN.items():
            answer = await client.request("PATCH", NODES.path(name=own), body=patch, **_DRY)
            assert (what, answer.status) == (what, 403), answer.body
        with pytest.raises(Forbidden, match="no node but its own"):
            await OwnNode(client, other, SIGNAL_TAINT_KEY).rehearse()
        await mine.rehearse()
        assert await cluster.taint_keys(own) == [FOREIGN_TAINT["key"]]
        for notice in (NOTICE, Notice(Kind.INTERRUPTION, NOTICE.at + 600, "stop")):
            assert (await mine.store(notice))[0] is Stored.WRITTEN
            assert (await mine.store(notice))[0] is Stored.KNOWN
            await mine.rehearse()
        assert await cluster.taint_keys(own) == [FOREIGN_TAINT["key"], SIGNAL_TAINT_KEY]
        assert (await client.request("DELETE", NODES.path(name=own))).status == 403


_DRY: Mapping[str, Any] = {"params": {"dryRun": "All"}, "content_type": "application/json-patch+json"}


async def test_an_agent_on_the_wrong_node_ends_at_the_start(tmp_path: Path, cluster: World) -> None:
    """Its first write is tried as a dry run, and the policy answers."""
    own, other = await cluster.add_nodes("a", 2)
    async with installed(cluster), metadata(tmp_path) as service:
        account = await account_of_pod(cluster, own, tmp_path)
        client = SlimClient(cluster.plane.server, account, "ebbtide-agent/test")

        async def in_force() -> bool:
            return (await client.request("PATCH", NODES.path(name=other), body=[], **_DRY)).status == 403

        await cluster.wait_until(in_force, "the policy is in force")
        with pytest.raises(ExceptionGroup) as caught:
            async with agent(cluster, account, other, service):
                await asyncio.get_running_loop().create_future()
        (error,) = caught.value.exceptions
        assert isinstance(error, ClusterAccessError)
        assert await cluster.taint_keys(other) == []
