"""The figures of the front can be measured; what comes out is looked at elsewhere."""

import pytest

from bench import front


async def test_the_front_is_measured_beside_its_floor(capsys: pytest.CaptureFixture[str]) -> None:
    """Every figure of ours, and the floor's where there is one, from servers that run."""
    little = ["--rounds=1", "--seconds=0.1", "--paced-seconds=0.1", "--waiting=5"]
    await front.measure(front.flags().parse_args(little))
    printed = capsys.readouterr().out
    assert front.COMMAND in printed
    assert [printed.count(f"  {name} ") for name in ("front", "bare aiohttp")] == [6, 6]
    assert "memory of each" in printed
