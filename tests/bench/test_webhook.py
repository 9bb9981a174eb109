"""The figures of admission can be measured; what comes out is looked at elsewhere."""

import pytest

from bench import webhook, webhook_large
from bench.admission import FLOOR, OURS


async def test_admission_is_measured_beside_its_floor(capsys: pytest.CaptureFixture[str]) -> None:
    """Every figure has a value of ours and the floor's, from servers that run, with what needs nothing to be built."""
    little = ["--nodes=9", "--rounds=1", "--turns=1", "--seconds=0.1", "--paced-seconds=0.1"]
    await webhook.measure(webhook.flags().parse_args(little))
    printed = capsys.readouterr().out
    assert webhook.COMMAND in printed
    figures = [line.strip() for line in printed.splitlines() if line.startswith(" ") and not line.startswith("  ")]
    assert len(figures) == 2 * len(webhook.SIZES) + 5
    assert [printed.count(f"  {name} ") for name in (OURS, FLOOR)] == [len(figures)] * 2


async def test_memory_is_measured_beside_the_floor_s(capsys: pytest.CaptureFixture[str]) -> None:
    """While all large reviews are answered."""
    await webhook_large.measure(webhook_large.flags().parse_args(["--nodes=9", "--count=3", "--size=100000"]))
    printed = capsys.readouterr().out
    assert webhook_large.COMMAND in printed
    assert [printed.count(f"\n {name}\n") for name in (OURS, FLOOR)] == [1, 1]
    assert printed.count("peak of the memory") == 2
