"""From a queue to a pod in the other zone, on a real control plane, with the reconciler as its users run it."""

import asyncio
from pathlib import Path

import pytest

from ebbtide.kube.resources import NODES
from ebbtide.vocabulary import SIGNAL_TAINT_KEY
from tests.controlplane.expectations import all_in_zone, all_prevented, stand_on
from tests.controlplane.program import configuration, kill_leader, process, scrape
from tests.controlplane.proxy import FaultProxy, Hold
from tests.controlplane.world import FOREIGN_TAINT, World
from tests.reconciler.signals.sqs import CREDENTIALS, REGION, QueueOfTest, interruption, moto, new_queue, rebalance

pytestmark = pytest.mark.controlplane

LONG_AGO = "2026-03-01T11:58:00Z"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


async def become(world: World, node: str, instance: str) -> None:
    """What the cloud's controller writes on a node."""
    await world.client.patch_merge(NODES, node, {"spec": {"providerID": f"aws:///a/{instance}"}})


def reading(world: World, queue: QueueOfTest) -> str:
    """A configuration with that queue."""
    text = configuration(world)
    return f'{text}[signals.sqs]\nqueue-url = "{queue.url}"\nregion = "{REGION}"\n'


async def signals(world: World, node: str) -> list[str]:
    return [taint["value"] for taint in await world.taints(node) if taint["key"] == SIGNAL_TAINT_KEY]


async def test_a_message_moves_the_pods_to_the_other_zone(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """The zone is blocked, the pods go, other taints stay; garbage beside it does no harm."""
    zone_a = await cluster.add_nodes("a", 2, taints=[FOREIGN_TAINT])
    zone_b = await cluster.add_nodes("b", 2, taints=[FOREIGN_TAINT])
    await stand_on(cluster, zone_a[0], [zone_a[1], *zone_b])
    await become(cluster, zone_a[0], "i-1")
    async with moto() as server, new_queue(server) as queue:
        await queue.send("garbage", rebalance("i-1", LONG_AGO), rebalance("i-of-somebody-else"))
        async with process(tmp_path / "one", cluster, proxy, reading(cluster, queue)) as program:
            await all_prevented(cluster, zone_a)
            await all_in_zone(cluster, "tikv", 3, "b")
            assert await signals(cluster, zone_a[0]) == ["1772366280"]
            assert (await cluster.taints(zone_a[0]))[0] == FOREIGN_TAINT
            url = await program.serving()

            async def counted() -> bool:
                seen = await scrape(url)
                results = ("stored", "malformed", "unknown-instance")
                return all(seen.value("signals_messages_total", result=result) for result in results)

            async def stored_is_gone() -> bool:
                return await queue.depth() == 2

            await cluster.wait_until(counted, "each message is counted")
            await cluster.wait_until(stored_is_gone, "the message that was stored is deleted, and no other")
            assert await program.terminate() == 0


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_killed_leader_leaves_its_messages_to_the_next(
    when: str, tmp_path: Path, cluster: World, proxy: FaultProxy, second_proxy: FaultProxy
) -> None:
    """kill -9 with the write under way, or stored and not confirmed: the next one ends it, and stores it once."""
    (node,) = await cluster.add_nodes("a", 1)
    await become(cluster, node, "i-1")
    method, path, never = "PATCH", f"^/api/v1/nodes/{node}", asyncio.Event()
    proxy.inject(Hold(before=never) if when == "before" else Hold(after=never), method=method, path=path)
    async with moto() as server, new_queue(server) as queue:
        await queue.send(interruption("i-1"))
        text = reading(cluster, queue)
        async with process(tmp_path / "one", cluster, proxy, text) as first:

            async def under_way() -> bool:
                assert first.process.returncode is None, "\n".join(first.log)
                return any(when == "before" or seen.status is not None for seen in proxy.matching(method, path))

            await cluster.wait_until(under_way, "the signal is being written")
            await kill_leader(first, cluster)
        async with process(tmp_path / "two", cluster, second_proxy, text):
            await queue.emptied()
        assert len(await signals(cluster, node)) == 1
