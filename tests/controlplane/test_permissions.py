"""What the reconciler may do and says when it may not: service accounts and exit codes on a real control plane."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

import pytest

from ebbtide.config import Settings
from reconciler.needs import needs
from tests.controlplane.expectations import all_in_zone, all_prevented, stand_on
from tests.controlplane.program import Process, configuration, probe, process
from tests.controlplane.proxy import Drop, FaultProxy
from tests.controlplane.world import World, wait_until

pytestmark = pytest.mark.controlplane

Rules = list[Mapping[str, Sequence[str]]]


def granted(but: str = "") -> Rules:
    """RBAC rules for exactly what the program says it needs, without those whose text contains `but`."""
    wanted = needs(Settings(), "any", dry_run=False)
    return [
        {
            "apiGroups": [need.resource.group],
            "resources": ["/".join(filter(None, [need.resource.plural, need.subresource]))],
            "verbs": [need.verb],
        }
        for need in wanted
        if not but or but not in f"{need.verb} {need.resource.plural}/{need.subresource}"
    ]


async def exit_code(running: Process) -> int:
    async def ended() -> bool:
        return running.process.returncode is not None

    await wait_until(ended, "the reconciler gives up")
    assert running.process.returncode is not None
    return running.process.returncode


async def test_what_it_says_it_needs_is_enough(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """With a role of exactly these verbs a zone is blocked and emptied, and nothing is refused."""
    zone_a = await cluster.add_nodes("a", 2)
    zone_b = await cluster.add_nodes("b", 1)
    await stand_on(cluster, zone_a[0], zone_a[1:] + zone_b)
    await cluster.signal(zone_a[0], value="1700000000")
    token = await cluster.account("ebbtide", granted())
    async with process(tmp_path / "one", cluster, proxy, configuration(cluster), token=token):
        await all_prevented(cluster, zone_a)
        await all_in_zone(cluster, "tikv", 3, "b")
    assert [seen.path for seen in proxy.requests if seen.status == 403] == []


@pytest.mark.parametrize(
    "verb", ["list nodes/", "patch nodes/", "update leases/", "create pods/eviction", "watch pods/"]
)
async def test_a_missing_permission_ends_it_with_3_and_its_name(
    verb: str, tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """The message names verb and resource, so that somebody can mend the role."""
    token = await cluster.account("ebbtide", granted(but=verb))
    async with process(tmp_path / "one", cluster, proxy, configuration(cluster), token=token) as running:
        assert await exit_code(running) == 3
    said = "\n".join(running.log)
    what, _, resource = verb.partition(" ")
    assert what in said
    assert resource.rstrip("/") in said


async def test_an_event_that_may_not_be_written_stops_nothing(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """Events are a courtesy: without the permission zones are blocked all the same."""
    zone_a = await cluster.add_nodes("a", 1)
    await cluster.signal(zone_a[0], value="1700000000")
    token = await cluster.account("ebbtide", granted(but="create events"))
    proxy.expect_forbidden("POST", "/events")

    async def refused() -> bool:
        return any(seen.status == HTTPStatus.FORBIDDEN for seen in proxy.matching("POST", "/events"))

    async with process(tmp_path / "one", cluster, proxy, configuration(cluster), token=token):
        await all_prevented(cluster, zone_a)
        await cluster.wait_until(refused, "an event is refused")


async def test_credentials_that_are_not_accepted_end_it_with_3(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """401 is nothing that waiting would mend."""
    async with process(tmp_path / "one", cluster, proxy, configuration(cluster), token="nobody") as running:
        assert await exit_code(running) == 3
    assert "401" in "\n".join(running.log)


async def test_a_cluster_that_is_away_is_waited_for(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """Not ready with the reason, alive, and at work as soon as the cluster is there."""
    zone_a = await cluster.add_nodes("a", 1)
    await cluster.signal(zone_a[0], value="1700000000")
    away = proxy.inject(Drop())
    async with process(tmp_path / "one", cluster, proxy, configuration(cluster)) as running:
        url = await running.serving()

        async def asked() -> bool:
            return away.acted >= 2

        await wait_until(asked, "the cluster has been asked twice")
        assert (await probe(url, "/healthz"))[0] == 200
        status, reason = await probe(url, "/readyz")
        assert (status, bool(reason.strip())) == (503, True)
        proxy.withdraw(away)
        await all_prevented(cluster, zone_a)

        async def ready() -> bool:
            return (await probe(url, "/readyz"))[0] == 200

        await wait_until(ready, "it is ready")
