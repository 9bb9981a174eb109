"""The supervisor: no part dies unnoticed, and the end has an order."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from ebbtide.errors import ClusterAccessError, EbbtideError
from ebbtide.service.probes import Health
from ebbtide.service.supervisor import Part, PartDiedError, Supervisor
from ebbtide.sim.time import simulate


class Stage:
    """Parts that write down when they begin and end."""

    def __init__(self) -> None:
        self.health = Health()
        self.stopping = asyncio.Event()
        self.events: list[str] = []

    def part(self, name: str, *, finishing: float = 0.0, stubborn: bool = False) -> Part:
        """Runs until it is asked to stop, then takes `finishing` seconds; a stubborn one has to be cancelled."""
        asked = asyncio.Event()

        async def run() -> None:
            self.events.append(f"{name} up")
            try:
                await asked.wait()
                await asyncio.sleep(finishing)
                self.events.append(f"{name} down")
            except asyncio.CancelledError:
                self.events.append(f"{name} cancelled")
                raise

        return Part(name, run, None if stubborn else asked.set)

    async def run(self, *parts: Part, grace: float = 20.0) -> None:
        await Supervisor(self.health, self.stopping, grace=grace).run(*parts)


def dying(error: BaseException | None, after: float = 1.0) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        await asyncio.sleep(after)
        if error is not None:
            raise error

    return run


def test_parts_start_in_order_and_stop_in_the_opposite_one() -> None:
    async def main() -> list[str]:
        stage = Stage()
        asyncio.get_running_loop().call_later(5, stage.stopping.set)
        await stage.run(stage.part("http", stubborn=True), stage.part("nodes"), stage.part("election", finishing=3))
        assert asyncio.get_running_loop().time() == 8
        return stage.events

    assert simulate(main()) == ["http up", "nodes up", "election up", "election down", "nodes down", "http cancelled"]


def test_a_part_that_is_too_slow_is_cancelled_when_the_grace_is_over() -> None:
    async def main() -> tuple[list[str], float]:
        stage = Stage()
        stage.stopping.set()
        await stage.run(stage.part("http"), stage.part("slow", finishing=100), grace=20)
        return stage.events, asyncio.get_running_loop().time()

    events, time = simulate(main())
    assert events == ["http up", "slow up", "slow cancelled", "http down"]
    assert time == 20


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (None, PartDiedError, "nodes ended although nobody had stopped it"),
        (ValueError("bug"), PartDiedError, r"nodes failed: ValueError\('bug'\)"),
        (ClusterAccessError("not permitted"), ClusterAccessError, "not permitted"),
        (ExceptionGroup("g", [ClusterAccessError("not permitted")]), ClusterAccessError, "not permitted"),
        (ExceptionGroup("g", [ClusterAccessError("x"), ValueError("bug")]), PartDiedError, "nodes failed"),
        (asyncio.CancelledError(), PartDiedError, "nodes was cancelled from inside"),
    ],
    ids=["returns", "bug", "known", "known in a group", "bug in a group", "cancelled"],
)
def test_a_part_that_ends_by_itself_ends_the_others_in_order_and_fails_the_process(
    error: BaseException | None, raised: type[EbbtideError], words: str
) -> None:
    async def main() -> None:
        stage = Stage()
        with pytest.raises(raised, match=words):
            await stage.run(stage.part("http"), Part("nodes", dying(error)), stage.part("election"))
        assert stage.events == ["http up", "election up", "election down", "http down"]

    simulate(main())


def test_a_dead_part_makes_the_process_unhealthy_at_once_while_the_others_still_stop() -> None:
    async def main() -> None:
        stage = Stage()
        running = asyncio.ensure_future(
            stage.run(Part("nodes", dying(ValueError("bug"))), stage.part("election", finishing=10))
        )
        await asyncio.sleep(5)
        assert not running.done()
        assert list(stage.health.liveness().reasons) == ["nodes"]
        with pytest.raises(PartDiedError):
            await running

    simulate(main())


def test_the_log_names_the_part_that_died() -> None:
    async def main() -> None:
        stage = Stage()
        with capture_logs() as entries, pytest.raises(PartDiedError):
            await stage.run(Part("nodes", dying(ValueError("bug"))))
        errors = [(entry["event"], entry["part"]) for entry in entries if entry["log_level"] == "error"]
        assert errors == [("part failed", "nodes"), ("part died", "nodes")]

    simulate(main())


def test_an_orderly_stop_is_no_failure() -> None:
    async def main() -> None:
        stage = Stage()
        stage.stopping.set()
        await stage.run(stage.part("nodes"))
        assert stage.health.liveness().good

    simulate(main())


def test_cancellation_is_an_orderly_stop_too() -> None:
    async def main() -> list[str]:
        stage = Stage()
        running = asyncio.ensure_future(stage.run(stage.part("http"), stage.part("election", finishing=3)))
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return stage.events

    assert simulate(main()) == ["http up", "election up", "election down", "http down"]
