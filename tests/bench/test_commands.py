"""Each command of `bench/` works, with as little to measure as possible."""

from types import ModuleType

import pytest

from bench import agent, events_cpu, evictions, idle, late_node, pool_placement, sqs, taint_zone, worker_start
from tests.controlplane.world import World
from tests.reconciler.signals.sqs import CREDENTIALS

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (taint_zone, "--nodes 3 --rounds 1 --cold-rounds 1"),
        (late_node, "--nodes 2"),
        (evictions, "--pods 3 --rounds 1"),
        (idle, "--nodes 12 --seconds 1"),
        (events_cpu, "--nodes 20 --events 50 --rounds 1"),
        (pool_placement, "--pods 2 --tasks 10 --rounds 1 --seconds 0.2"),
        (worker_start, "--rounds 1"),
        (agent, "--seconds 1 --interval 0.2"),
    ],
    ids=lambda value: value.COMMAND if isinstance(value, ModuleType) else "",
)
async def test_a_figure_comes_with_what_it_is_compared_with(
    command: ModuleType, flags: str, cluster: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own value and the one from the same run that it stands beside; the control plane is as it was."""
    before = files(cluster)
    await command.measure(cluster, command.flags().parse_args(flags.split()))
    printed = capsys.readouterr().out
    assert command.COMMAND in printed
    assert "bare" in printed
    assert files(cluster) == before


def files(cluster: World) -> dict[str, bytes]:
    """What other tests find the control plane by: its certificates, and kubectl's way to it."""
    plane = cluster.plane
    found = [plane.kubeconfig, plane.ca_file, plane.pki.certificate, plane.pki.key, plane.pki.service_accounts]
    return {path.name: path.read_bytes() for path in found}


async def test_the_queue_s_own_limit_is_printed_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And every valid message has arrived."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    await sqs.measure(sqs.flags().parse_args(["--messages", "60"]))
    printed = capsys.readouterr().out
    assert "bare receive and delete" in printed
    assert "nodes without their signal" in printed
