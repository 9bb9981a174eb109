"""The figure on asking workers works, with as few of them as possible."""

import pytest

from bench import status_round


async def test_a_round_comes_with_what_it_is_compared_with(capsys: pytest.CaptureFixture[str]) -> None:
    """One of twenty workers is silent, and is waited for until the deadline."""
    await status_round.measure(status_round.flags().parse_args(["--workers", "20", "--rounds", "1", "--seconds", "1"]))
    printed = capsys.readouterr().out
    assert "bare: all asked within" in printed
    assert "reconciler: oldest answer" in printed
