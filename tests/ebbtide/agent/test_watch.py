"""How often the metadata service is asked, and what its troubles do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from ebbtide.agent.imds import INTERRUPTION_PATH, REBALANCE_PATH, TOKEN_PATH, Metadata
from ebbtide.agent.watch import Watch
from ebbtide.notices import Kind, Notice
from ebbtide.sim.time import simulate
from tests.ebbtide.agent.service import BOTH, INTERRUPTION, INTERRUPTION_AT, NOTICE, NOTICE_AT, Service, serving


@asynccontextmanager
async def watching(service: Service, interval: float = 2.0) -> AsyncIterator[tuple[Watch, list[Notice]]]:
    told: list[Notice] = []
    watch = Watch(Metadata(service.url), interval, told.append)
    task = asyncio.ensure_future(watch.run())
    try:
        yield watch, told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_it_is_asked_at_the_interval() -> None:
    """Thirty times a minute, not all agents in step."""

    async def minute() -> None:
        async with serving() as service, watching(service) as (watch, told):
            await asyncio.sleep(60)
            times = service.times(REBALANCE_PATH)
            pauses = [after - before for before, after in pairwise(times)]
            assert 25 <= len(times) <= 36
            assert all(1.5 < pause < 2.5 for pause in pauses)
            assert len(set(pauses)) > 3
            assert watch.problem() is None
            assert told == []

    simulate(minute())


def test_an_absent_service_is_asked_on_ever_more_slowly() -> None:
    """No crash, a reason for who asks, and one that comes back is heard within half a minute."""

    async def ten_minutes() -> None:
        async with serving(failures={TOKEN_PATH: [500] * 10_000}) as service, watching(service) as (watch, told):
            await asyncio.sleep(600)
            asked = service.times(TOKEN_PATH)
            assert len(asked) < 200
            assert "PUT /latest/api/token: 500" in (watch.problem() or "")
            service.failures.clear()
            service.documents = dict(BOTH)
            await asyncio.sleep(30)
            assert {notice.kind for notice in told} == set(Kind)
            assert watch.problem() is None

    simulate(ten_minutes())


def test_the_first_troubles_pass_quickly() -> None:
    """An instance that is just being set up is not left alone for half a minute."""

    async def seconds() -> None:
        failing = {TOKEN_PATH: [503] * 2}
        async with serving(failures=failing, documents=BOTH) as service, watching(service) as (_, told):
            await asyncio.sleep(5)
            assert told

    simulate(seconds())


@pytest.mark.parametrize(
    ("broken", "good"), [(REBALANCE_PATH, INTERRUPTION_PATH), (INTERRUPTION_PATH, REBALANCE_PATH)], ids=["a", "b"]
)
def test_one_question_does_not_wait_for_the_troubles_of_the_other(broken: str, good: str) -> None:
    """Nonsense about one thing leaves the other to be heard."""
    documents = {good: NOTICE if good == REBALANCE_PATH else INTERRUPTION, broken: b"nonsense"}
    heard = (
        Notice(Kind.REBALANCE, NOTICE_AT)
        if good == REBALANCE_PATH
        else Notice(Kind.INTERRUPTION, INTERRUPTION_AT, "terminate")
    )

    async def seconds() -> None:
        async with serving(documents=documents) as service, watching(service) as (watch, told):
            await asyncio.sleep(10)
            assert set(told) == {heard}
            assert broken in (watch.problem() or "")

    simulate(seconds())


def test_a_slow_service_is_no_dead_watch() -> None:
    """Liveness has nothing to complain of while answers take their whole time."""

    async def minutes() -> None:
        async with serving(silent=True) as service, watching(service) as (watch, _):
            await asyncio.sleep(300)
            assert watch.silence() < 60
            assert "no answer within" in (watch.problem() or "")

    simulate(minutes())


def test_a_service_that_is_always_late_is_heard() -> None:
    """Both notices, within what four late answers and the pause take; nothing is called a problem."""

    async def minute() -> None:
        async with serving(late=4.9) as service, watching(service) as (watch, told):
            await asyncio.sleep(60)
            assert told == []
            assert watch.problem() is None
            service.documents = dict(BOTH)
            await asyncio.sleep(25)
            assert {notice.kind for notice in told} == set(Kind)
            assert watch.silence() < 20

    simulate(minute())
