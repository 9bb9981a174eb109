"""`ebbtide cleanup` on a real control plane, after the real reconciler."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from ebbtide.kube.resources import LEASES, NODES
from ebbtide.vocabulary import FIRST_SEEN_ANNOTATION, PREVENT_TAINT_KEY, SIGNAL_TAINT_KEY
from tests.controlplane.command import ebbtide, started
from tests.controlplane.expectations import all_prevented, prevented
from tests.controlplane.program import LEASE, configuration, process
from tests.controlplane.proxy import FaultProxy, Hold, Refuse
from tests.controlplane.world import FOREIGN_TAINT, Rules, World, wait_until

pytestmark = pytest.mark.controlplane

P = {"key": PREVENT_TAINT_KEY, "value": "1772366000", "effect": "NoSchedule"}

# What the page about it says that it needs; here there are no workers to clean up after.
_OF_WORKERS = {
    "apps": ["statefulsets"],
    "": ["services", "configmaps", "persistentvolumeclaims"],
    "policy": ["poddisruptionbudgets"],
}
RULES: Rules = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "get", "patch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "get", "delete"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "delete"]},
    *({"apiGroups": [group], "resources": kinds, "verbs": ["list"]} for group, kinds in _OF_WORKERS.items()),
]


async def blocked(folder: Path, cluster: World, proxy: FaultProxy) -> tuple[list[str], dict[str, Any]]:
    """A zone that the real reconciler has blocked before it was stopped, and its nodes without our marks."""
    nodes = await cluster.add_nodes("a", 3, taints=[FOREIGN_TAINT])
    for node in nodes[:2]:
        await cluster.signal(node)
    await cluster.cordon(nodes[2])
    before = await stripped(cluster, nodes)
    async with process(folder / "reconciler", cluster, proxy, configuration(cluster)) as running:
        await all_prevented(cluster, nodes)
        assert await running.terminate() == 0
    return nodes, before


async def stripped(cluster: World, nodes: list[str]) -> dict[str, Any]:
    """Labels, annotations and spec of the nodes."""
    raws = [await cluster.client.get(NODES, node) for node in nodes]
    return {raw["metadata"]["name"]: (raw["metadata"]["labels"], annotations(raw), raw["spec"]) for raw in raws}


def annotations(raw: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = raw["metadata"].get("annotations") or {}
    return found


async def leases(cluster: World) -> list[str]:
    found, _ = await cluster.client.list_all(LEASES, namespace=cluster.namespace)
    return [raw["metadata"]["name"] for raw in found]


def writes(proxy: FaultProxy) -> int:
    """Requests of clean-ups that change something. Questions for permissions change nothing."""
    return sum(
        seen.method in ("PATCH", "PUT", "DELETE") and not seen.agent.startswith("ebbtide-reconciler")
        for seen in proxy.requests
    )


async def test_after_a_block_nothing_of_ours_is_left_and_nothing_else_is_changed(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """NR-61: signals, cordons and foreign taints stay where they were; a second run writes nothing. The account may do
    what the page says, and nothing else."""
    nodes, before = await blocked(tmp_path, cluster, proxy)
    (outside,) = await cluster.add_nodes("b", 1, group="", taints=[P])
    text, token = configuration(cluster), await cluster.account("cleaner", RULES)

    words = ("cleanup", "--output", "json")
    dry = await ebbtide(tmp_path / "dry", cluster, proxy, *words, "--dry-run", text=text, token=token)
    assert (dry.code, writes(proxy)) == (0, 0)
    assert {each["name"] for each in dry.document["objects"]} >= {*nodes, outside, LEASE}

    wet = await ebbtide(tmp_path / "wet", cluster, proxy, *words, text=text, token=token)
    assert wet.code == 0, wet.err
    assert wet.document["counts"] == dry.document["counts"]
    assert wet.document["counts"]["nodeTaints"] >= 4
    assert wet.document["counts"]["nodeAnnotations"] >= 2
    assert await stripped(cluster, nodes) == before
    assert PREVENT_TAINT_KEY not in await cluster.taint_keys(outside)
    assert await leases(cluster) == []

    once = writes(proxy)
    again = await ebbtide(tmp_path / "again", cluster, proxy, "cleanup", text=text)
    assert (again.code, writes(proxy)) == (0, once)
    assert "nothing to remove" in again.out
    assert f"left alone: signal taint {SIGNAL_TAINT_KEY}" in again.out


async def test_it_refuses_while_the_real_reconciler_leads(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """Exit code 1, nothing written, and the message names the leader, its lease and what to do."""
    nodes = await cluster.add_nodes("a", 2)
    await cluster.signal(nodes[0], value="1700000000")
    text = configuration(cluster)
    async with process(tmp_path / "reconciler", cluster, proxy, text):
        await all_prevented(cluster, nodes)
        said = await ebbtide(tmp_path / "one", cluster, proxy, "cleanup", text=text)
        # A configuration that names another namespace does not hide it.
        elsewhere = await ebbtide(tmp_path / "two", cluster, proxy, "cleanup")
    assert (said.code, elsewhere.code, writes(proxy)) == (1, 1, 0)
    for words in ("a reconciler leads", f"{cluster.namespace}/{LEASE}", "--force"):
        assert words in said.err
    assert await prevented(cluster, nodes) == nodes


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_in_the_middle_the_next_run_ends_it(
    when: str, tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """`kill -9` with a write under way, done or not done by the server."""
    nodes, before = await blocked(tmp_path, cluster, proxy)
    text, never = configuration(cluster), asyncio.Event()
    hold = Hold(before=never) if when == "before" else Hold(after=never)
    rule = proxy.inject(hold, method="PATCH", path=f"^/api/v1/nodes/{nodes[1]}")
    async with started(tmp_path / "one", cluster, proxy, "cleanup", text=text) as running:

        async def reached() -> bool:
            return rule.acted > 0 and await prevented(cluster, [nodes[0], nodes[2]]) == []

        await wait_until(reached, "two nodes are clean, and the third one is being written")
        running.kill()
        await running.wait()
    proxy.withdraw(rule)
    said = await ebbtide(tmp_path / "two", cluster, proxy, "cleanup", text=text)
    assert said.code == 0, said.err
    assert await stripped(cluster, nodes) == before


async def test_interrupted_it_says_how_far_it_came(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    nodes, _ = await blocked(tmp_path, cluster, proxy)
    rule = proxy.inject(Hold(before=asyncio.Event()), method="PATCH", path=f"^/api/v1/nodes/{nodes[1]}")
    async with started(tmp_path / "one", cluster, proxy, "cleanup", text=configuration(cluster)) as running:

        async def reached() -> bool:
            return rule.acted > 0 and await prevented(cluster, [nodes[0], nodes[2]]) == []

        await wait_until(reached, "two nodes are clean, and the third one is being written")
        running.send_signal(signal.SIGINT)
        _, err = await running.communicate()
    assert running.returncode == 130
    assert "objects are clean; run it again for the rest" in err.decode()
    assert "Traceback" not in err.decode()


async def test_other_writers_lose_nothing(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """A taint that is added in front of ours while the write is under way stays; ours goes all the same."""
    nodes, _ = await blocked(tmp_path, cluster, proxy)
    gate = asyncio.Event()
    rule = proxy.inject(Hold(before=gate), method="PATCH", path=f"^/api/v1/nodes/{nodes[0]}", times=1)
    async with started(tmp_path / "one", cluster, proxy, "cleanup", text=configuration(cluster)) as running:

        async def reached() -> bool:
            return rule.acted > 0

        await wait_until(reached, "the write is under way")
        late = {"op": "add", "path": "/spec/taints/0", "value": {"key": "late", "effect": "NoSchedule"}}
        await cluster.client.patch_json(NODES, nodes[0], [late])
        gate.set()
        _, err = await running.communicate()
    assert running.returncode == 0, err
    assert await cluster.taint_keys(nodes[0]) == ["late", FOREIGN_TAINT["key"], SIGNAL_TAINT_KEY]
    assert FIRST_SEEN_ANNOTATION not in annotations(await cluster.client.get(NODES, nodes[0]))
    answers = [seen.status for seen in proxy.matching("PATCH", f"^/api/v1/nodes/{nodes[0]}")]
    assert answers[-2:] == [409, 200]


async def test_a_missing_permission_is_named_before_anything_is_written(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """Exit code 3, with verb and resource, so that somebody can mend the role."""
    await cluster.add_nodes("a", 1, taints=[P])
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]},
    ]
    token = await cluster.account("cleaner", rules)
    said = await ebbtide(tmp_path / "one", cluster, proxy, "cleanup", token=token)
    assert (said.code, writes(proxy)) == (3, 0)
    assert "not permitted to: patch nodes" in said.err


async def test_a_refusal_in_the_middle_ends_with_3_too(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    (node,) = await cluster.add_nodes("a", 1, taints=[P])
    proxy.inject(Refuse(403, message=f'cannot patch resource "nodes" {node}'), method="PATCH", path=f"/nodes/{node}")
    said = await ebbtide(tmp_path / "one", cluster, proxy, "cleanup")
    assert said.code == 3
    assert 'cannot patch resource "nodes"' in said.err
    assert "Traceback" not in said.err


async def test_without_a_server_it_ends_with_3(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    proxy.inject(Refuse(401))
    said = await ebbtide(tmp_path / "one", cluster, proxy, "cleanup")
    assert (said.code, said.out) == (3, "")
