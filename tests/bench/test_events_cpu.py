"""What following nodes costs is held against its aims."""

import pytest

from bench import events_cpu


def test_each_peer_with_an_aim_is_judged_by_cpu_and_by_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """No more than controller-runtime takes, and a sixth of what kopf does; the floor is there to be seen."""
    costs = {"reconciler": [0.2], "floor": [0.1], "kopf": [1.5], "controller-runtime": [0.19]}
    events_cpu.report(costs, {"reconciler": 90.0, "floor": 40.0, "kopf": 500.0, "controller-runtime": 250.0})
    printed = capsys.readouterr().out.splitlines()
    judged = [line.split()[-1] for line in printed if "aim" in line]
    assert judged == ["met", "MISSED", "MISSED", "met"]
