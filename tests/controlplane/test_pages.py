"""The commands of the pages on a cluster, one after the other, as they stand there."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import NAMESPACES, NODES, PDBS, PODS
from tests.controlplane.desk import Desk, desk
from tests.controlplane.everything import Name, everything
from tests.controlplane.expectations import all_in_zone, all_prevented, none_prevented
from tests.controlplane.world import World
from tests.docs.commands import INSTALLING, ROOT, commands, commands_of, in_sentences, on_a_cluster

pytestmark = pytest.mark.controlplane

GETTING_STARTED = "docs/getting-started.md"
# What its reader changes the cluster by; each has a test of its own below.
RUNNING = "docs/running.md"
CHANGING = (
    "charts/ebbtide/README.md",
    "docs/cleanup.md",
    "docs/karpenter.md",
    "docs/migration.md",
    "docs/operating.md",
)
SIGNAL = "kubectl taint node NODE aws-node-termination-handler/rebalance-recommendation=1700000000:NoSchedule"
ROLLED = "kubectl -n ebbtide-system rollout status deployment ebbtide-reconciler"
# It says what is wrong by its code, and on a cluster without autoscaler or signals something may be.
FINDINGS = (0, 1)
WORKERS = "tidb-serverless"
# Within sentences, and not tried here: why, and what is. All else is tried.
NOT_TRIED = {
    "kubectl delete pod": "a verb without its object, which is any pod of the reader's",
    "kubectl ebbtide": "a program without its command; tests/ebbtide/test_wheel.py runs it as kubectl does",
    "kubectl -n ebbtide-system describe certificate": "takes cert-manager; test_notes.py types it where that runs",
    "kubectl -n kube-system rollout restart deployment cluster-autoscaler": "of a Deployment that others make",
}
WRITES = r"helm|kubectl.* (taint|label|annotate|scale|create|delete|apply|patch) |ebbtide cleanup"


def good(text: str) -> tuple[int, ...]:
    return FINDINGS if text.startswith("ebbtide preflight") else (0,)


async def follow(at: Desk, page: str) -> None:
    """All commands of a page; whoever waits for a roll-out has a new reconciler afterwards."""
    for text in on_a_cluster(page):
        await at.types(text, good=good(text))
        if text == ROLLED:
            await at.restart()


async def test_a_newcomer_sees_a_zone_close_and_open_and_leaves_nothing_behind(cluster: World, tmp_path: Path) -> None:
    """By the pages that lead from one to the next. What is only watched changes nothing; in earnest pods move and the
    zone is tainted while there is a signal. Removed again, the cluster is as it was."""
    assert "(docs/getting-started.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(installing.md#removing-it)" in (ROOT / GETTING_STARTED).read_text(encoding="utf-8")
    zone_a = await cluster.add_nodes("a", 1)
    await cluster.deployment("tikv", 2)
    await cluster.ready_pods("tikv", 2)
    await cluster.add_nodes("b", 1)
    async with desk(cluster, tmp_path, {"NODE": zone_a[0], "NAMESPACE": cluster.namespace}) as at:
        before = await everything(cluster.plane)
        await _gets_started(at, zone_a)
        for text in removing():
            await at.types(text)
            if text.endswith("--replicas=0"):
                await at.stop()

        async def gone() -> bool:
            return not await _left(at, before)

        await cluster.wait_until(gone, f"nothing is left: {await _left(at, before)}")


async def _gets_started(at: Desk, zone_a: list[str]) -> None:
    """Types the page, and looks whether what it says has happened."""
    cluster, earnest = at.cluster, False
    for text in on_a_cluster(GETTING_STARTED):
        await (at.sees(text) if "get events" in text else at.types(text, good=good(text)))
        earnest = earnest or text.startswith("helm upgrade")
        if text == ROLLED:
            await at.restart()
        elif text == SIGNAL and earnest:
            await all_prevented(cluster, zone_a)
            await all_in_zone(cluster, "tikv", 2, "b")
        elif text.endswith("rebalance-recommendation-"):
            await none_prevented(cluster, zone_a)
        elif text == "ebbtide explain node NODE":
            assert "is older than 300 s" in (await at.types(text)).out
            await none_prevented(cluster, zone_a)
    assert earnest


def removing() -> list[str]:
    """The commands under the last heading of the page about installing."""
    _, found, section = (ROOT / INSTALLING).read_text(encoding="utf-8").partition("\n## Removing it\n")
    assert found
    texts = [each.text for each in commands_of(ROOT / INSTALLING)]
    return texts[-section.count("\n$ ") :]


async def _left(at: Desk, before: set[Name]) -> set[Name]:
    """What is there more than before, beside what every namespace has; and nodes that still say something."""
    others = {"pods", "namespaces", "serviceaccounts", "configmaps"}
    found = await everything(at.cluster.plane) - before
    left = {name for name in found if name[0] not in others and name[1] != "kube-node-lease"}
    left |= {name for name in found if "ebbtide" in name[2]}
    async for node in at.cluster.client.list(NODES):
        written = [*node["metadata"].get("annotations", {}), *(each["key"] for each in node["spec"].get("taints", ()))]
        left |= {("nodes", "", f"{node['metadata']['name']}: {key}") for key in written if key.startswith("ebbtide/")}
    return left


def sentences() -> list[str]:
    """Commands of kubectl within sentences, but for those that getting started runs."""
    done = on_a_cluster(GETTING_STARTED)
    return [text for text in in_sentences("kubectl") if text not in done and not text.startswith(tuple(NOT_TRIED))]


def test_nothing_is_left_out_that_no_sentence_has() -> None:
    texts = in_sentences("kubectl")
    assert [prefix for prefix in NOT_TRIED if not any(text.startswith(prefix) for text in texts)] == []


async def install(at: Desk) -> None:
    """By the command of the chart's own page."""
    await follow(at, "charts/ebbtide/README.md")
    await at.types(ROLLED)
    await at.restart()


@asynccontextmanager
async def pods_of_the_pages(cluster: World) -> AsyncIterator[None]:
    """The pods that the pages speak of, in the namespaces that they name; budgets hold them where they are."""
    named = {"tidb": ("tikv-0", {}), WORKERS: ("worker", {vocabulary.POOL_LABEL: "shared"})}
    for namespace, (name, labels) in named.items():
        await cluster.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        pod = cluster.template(name, labels=labels)
        pod["metadata"]["name"] = name
        budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
        await cluster.client.create(PDBS, {"metadata": {"name": "tikv"}, "spec": budget}, namespace=namespace)
        await cluster.client.create(PODS, pod, namespace=namespace)
    try:
        yield
    finally:
        for namespace in named:
            await cluster.client.delete(NAMESPACES, namespace)


async def test_what_pages_look_at_can_be_looked_at(cluster: World, tmp_path: Path) -> None:
    """Every command of runbooks and of other pages that change nothing, while a zone is blocked."""
    zone_a = await cluster.add_nodes("a", 2)
    names = {"NODE": zone_a[0], "GROUP/ZONE": f"{cluster.group}/a", "ZONE": "a", "POD": "worker", "ID": "1-170-3-0"}
    names["NAMESPACE"] = cluster.namespace
    pages = {each.page for each in commands()} - {*CHANGING, GETTING_STARTED, RUNNING}
    texts = sorted({text for page in pages for text in on_a_cluster(page)})
    assert not [text for text in texts if re.match(WRITES, text)]
    await cluster.stateful_set("ldw-shared", 0)
    async with desk(cluster, tmp_path, names) as at, pods_of_the_pages(cluster):
        await install(at)
        for node in zone_a:
            await cluster.signal(node)
        await all_prevented(cluster, zone_a)
        for text in texts:
            await at.types(text, good=good(text))
        for text in sentences():
            await at.types(f"{text} --dry-run=server" if re.match(WRITES, text) else text)
        assert "held-back" in (await at.types("ebbtide explain pod tidb/tikv-0")).out


async def test_it_is_run_from_a_desk_as_the_page_says(cluster: World, tmp_path: Path) -> None:
    await cluster.add_nodes("a", 1)
    async with desk(cluster, tmp_path, {}) as at:
        (tmp_path / "ebbtide.toml").write_text("", encoding="utf-8")
        await follow(at, RUNNING)


async def test_operating_and_leaving(cluster: World, tmp_path: Path) -> None:
    """Upgrade, back, other sources of signals, guarded namespaces; at the end no node is tainted, whatever it was."""
    zone_a = await cluster.add_nodes("a", 1)
    await cluster.add_nodes("b", 1)
    names = {"GROUP/ZONE": f"{cluster.group}/a", "NAMESPACE": cluster.namespace}
    async with desk(cluster, tmp_path, names) as at:
        await install(at)
        await cluster.signal(zone_a[0], value="1700000000")
        await all_prevented(cluster, zone_a)
        for page in ("docs/operating.md", "docs/migration.md", "docs/karpenter.md"):
            await follow(at, page)
        await at.stop()
        await follow(at, "docs/cleanup.md")
        await none_prevented(cluster, zone_a)
