"""Zone rebalance among nodes that report their status, as all real ones do."""

from pathlib import Path

import pytest

from tests.controlplane.expectations import all_prevented, none_prevented
from tests.controlplane.program import configuration, in_this_process, probe, scrape
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane


async def test_a_zone_closes_and_opens_whose_nodes_have_sent_heartbeats_since_they_last_changed(
    tmp_path: Path, cluster: World
) -> None:
    """A heartbeat gives a node a new version and nothing else: no write is held up by it, in either direction."""
    zone = await cluster.add_nodes("a", 4)
    async with in_this_process(tmp_path, cluster, configuration(cluster)) as url:

        async def leads() -> bool:
            return (await probe(url, "/readyz"))[0] == 200 and (await scrape(url)).value("ebbtide_leader") == 1

        await cluster.wait_until(leads, "it is ready and leads")
        for node in zone:
            await cluster.heartbeat(node)
        await cluster.signal(zone[0], value="1700000000")
        await all_prevented(cluster, zone)
        for node in zone:
            await cluster.heartbeat(node)
        await cluster.clear_signal(zone[0])
        await none_prevented(cluster, zone)
