"""`ebbtide explain` and `ebbtide status` on a real control plane: what they say is what then happens."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ebbtide.kube.errors import BudgetRefused
from tests.controlplane.command import Said, ebbtide
from tests.controlplane.expectations import all_prevented, evictions, in_state, stand_on
from tests.controlplane.program import configuration, in_this_process
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

LISTED = {
    "": ["nodes", "pods", "namespaces", "persistentvolumes", "persistentvolumeclaims"],
    "policy": ["poddisruptionbudgets"],
    "admissionregistration.k8s.io": ["mutatingwebhookconfigurations"],
}


def reader(but: str = "") -> list[Mapping[str, Sequence[str]]]:
    """RBAC rules that permit to list what explanations read, and nothing else."""
    return [
        {"apiGroups": [group], "resources": [each for each in resources if each != but], "verbs": ["list"]}
        for group, resources in LISTED.items()
    ]


class Asking:
    """The command as an account that may only list."""

    def __init__(self, folder: Path, cluster: World, proxy: FaultProxy, token: str) -> None:
        self._where = (folder, cluster, proxy)
        self._text = configuration(cluster)
        self._token = token

    async def said(self, *words: str) -> Said:
        return await ebbtide(*self._where, *words, text=self._text, token=self._token)

    async def explained(self, kind: str, name: str) -> dict[str, Any]:
        said = await self.said("explain", kind, name, "--output", "json")
        assert said.code == 0, said.err
        document: dict[str, Any] = said.document
        return document


@pytest.fixture
async def asking(tmp_path: Path, cluster: World, proxy: FaultProxy) -> Asking:
    return Asking(tmp_path / "asking", cluster, proxy, await cluster.account("reader", reader()))


async def test_the_plan_that_is_explained_is_the_one_that_is_carried_out(
    tmp_path: Path, cluster: World, proxy: FaultProxy, asking: Asking
) -> None:
    """Before any reconciler runs, with the permission to list alone, and again when there is nothing left to do."""
    zone_a, zone_b = await cluster.add_nodes("a", 2), await cluster.add_nodes("b", 1)
    await stand_on(cluster, zone_a[0], [*zone_a[1:], *zone_b])
    await cluster.budget("all", {"app": "tikv"}, maxUnavailable=0)
    await cluster.signal(zone_a[0], value="1700000000")
    before = await asking.explained("node", zone_a[0])
    assert (before["state"], before["plan"]["taint"], before["plan"]["evict"]) == ("partial", zone_a, True)
    assert before["facts"]["signals"][0]["source"] == "taint-value"
    going = {pod["pod"] for pod in before["facts"]["pods"] if pod["evict"]}
    assert going == {f"{cluster.namespace}/{pod['metadata']['name']}" for pod in await cluster.pods()}
    assert (await asking.explained("node", zone_a[1]))["plan"]["evict"] is False

    async with in_this_process(tmp_path, cluster, configuration(cluster), proxy=proxy) as url:
        await all_prevented(cluster, zone_a)
        await in_state(cluster, url, "a", "blocked")

        async def asked() -> bool:
            return bool(evictions(proxy))

        await cluster.wait_until(asked, "pods are asked to go")
        after = await asking.explained("zone", f"{cluster.group}/a")
        assert (after["state"], after["plan"]["taint"]) == ("blocked", [])


async def test_a_budget_that_is_said_to_refuse_does(cluster: World, asking: Asking) -> None:
    (node,) = await cluster.add_nodes("a", 1, team="db")
    await cluster.deployment("db", 2)
    pod = (await cluster.ready_pods("db", 2))[0]["metadata"]
    await cluster.budget("db", {"app": "db"}, minAvailable=2)
    await cluster.signal(node, value="1700000000")

    async def refused() -> list[str]:
        held = (await asking.explained("pod", f"{cluster.namespace}/{pod['name']}"))["heldBack"]
        return [each["reason"] for each in held if "2 pods healthy, 2 demanded" in each["reason"]]

    (reason,) = await cluster.wait_until(refused, "the budget's status is there")
    assert f"PodDisruptionBudget {cluster.namespace}/db allows no disruption now" in reason
    with pytest.raises(BudgetRefused):
        await cluster.client.evict(pod["name"], namespace=cluster.namespace, uid=pod["uid"])


async def test_a_pod_that_finds_no_node_is_explained_with_the_schedulers_words(cluster: World, asking: Asking) -> None:
    await cluster.add_nodes("a", 1)
    await cluster.pod("lost", nodeSelector={"tests.ebbtide/nowhere": "x"})

    async def words() -> str:
        found = await asking.explained("pod", f"{cluster.namespace}/lost")
        assert (found["state"], found["plan"]["readmit"]) == ("waiting", False)
        return str(found["facts"]["scheduler"])

    assert "node affinity/selector" in await cluster.wait_until(words, "the scheduler has given up")


@pytest.mark.parametrize("resource", ["nodes", "pods", "namespaces"])
async def test_a_missing_permission_ends_it_with_3_and_its_name(
    resource: str, tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    (node,) = await cluster.add_nodes("a", 1)
    await cluster.signal(node, value="1700000000")
    token = await cluster.account("poor", reader(but=resource))
    proxy.expect_forbidden("GET", rf"^/api/v1/{resource}\?")
    said = await Asking(tmp_path / "poor", cluster, proxy, token).said("explain", "node", node)
    assert (said.code, said.out) == (3, "")
    assert f'cannot list resource "{resource}"' in said.err


async def test_status_is_the_same_from_the_leader_and_from_the_nodes(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """The leader here is no pod, so that the API server knows no way to it: that is said, and the nodes are read."""
    zone_a, zone_b = await cluster.add_nodes("a", 2), await cluster.add_nodes("b", 1)
    await cluster.signal(zone_a[0], value="1700000000")
    text = configuration(cluster)
    async with in_this_process(tmp_path, cluster, text, proxy=proxy) as url:
        await in_state(cluster, url, "a", "blocked")
        where = (tmp_path / "asking", cluster, proxy)
        told = await ebbtide(*where, "status", "--output", "json", "--url", url, text=text)
        read = await ebbtide(*where, "status", "--output", "json", text=text)
    assert (told.code, told.err, told.document["source"]) == (0, "", "leader")
    assert (read.code, read.document["source"]) == (0, "nodes")
    assert f"the leader {told.document['leader']['identity']} cannot be asked" in read.err
    assert read.document["leader"]["identity"] == told.document["leader"]["identity"]
    ours = [_zones(each.document, cluster.group) for each in (told, read)]
    assert ours == [[("a", "blocked", 1, zone_a), ("b", "open", 0, zone_b)]] * 2


def _zones(document: Any, group: str) -> list[tuple[str, str, int, list[str]]]:
    """Other tests' nodes are in it too."""
    return [
        (cell["zone"], cell["state"], cell["signalNodes"], [node["name"] for node in cell["nodes"]])
        for cell in document["cells"]
        if cell["group"] == group
    ]
