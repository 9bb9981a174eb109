"""The figures of admission can be measured; what comes out is looked at elsewhere."""

import pytest

from bench import webhook
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
