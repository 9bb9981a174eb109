"""What runs beside other work lasts exactly as long as that, and neither goes on without the other."""

import asyncio

import pytest

from ebbtide.sim.time import simulate
from reconciler.engine.beside import BesideEndedError, running


class Companion:
    """Runs for `lasting` seconds, then fails with `failure` or just ends."""

    name = "companion"

    def __init__(self, lasting: float = float("inf"), failure: Exception | None = None) -> None:
        self.lasting = lasting
        self.failure = failure
        self.life: list[str] = []

    async def run(self) -> None:
        self.life.append("began")
        try:
            await asyncio.sleep(min(self.lasting, 1e6))
        finally:
            self.life.append("ended")
        if self.failure is not None:
            raise self.failure


def test_it_runs_as_long_as_the_block_and_can_run_again() -> None:
    companion = Companion()

    async def story() -> None:
        for term in (1, 2):
            async with running((companion,)):
                await asyncio.sleep(5)
                assert companion.life == ["began", "ended"] * (term - 1) + ["began"]
            assert companion.life == ["began", "ended"] * term

    simulate(story())


@pytest.mark.parametrize(
    ("companion", "error"),
    [
        pytest.param(Companion(3, ValueError("broken")), ValueError, id="fails"),
        pytest.param(Companion(3), BesideEndedError, id="just ends"),
    ],
)
def test_the_block_ends_with_it(companion: Companion, error: type[Exception]) -> None:
    """Nothing goes on with half of what it needs."""

    async def story() -> None:
        with pytest.raises(ExceptionGroup) as raised:
            async with running((companion, other)):
                await asyncio.sleep(60)
        assert raised.group_contains(error)
        assert asyncio.get_running_loop().time() == 3
        assert other.life == ["began", "ended"]

    other = Companion()
    simulate(story())


def test_it_ends_with_a_block_that_fails() -> None:
    companion = Companion()

    async def story() -> None:
        async with running((companion,)):
            await asyncio.sleep(1)
            raise ValueError("broken")

    with pytest.raises(ExceptionGroup) as raised:
        simulate(story())
    assert raised.group_contains(ValueError)
    assert companion.life == ["began", "ended"]
