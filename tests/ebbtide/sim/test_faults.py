"""Everything that can be made to go wrong."""

import asyncio

import aiohttp
import pytest

from ebbtide.sim.faults import (
    ALWAYS,
    Answer,
    Compact,
    CutWatch,
    Delay,
    Drop,
    FreezeWatch,
    LoseEvents,
    RepeatEvents,
    When,
)
from tests.ebbtide.sim.talk import CONFIG_MAPS, Talk, config_map, embedded, simulated

WATCH = When(method="WATCH", path=CONFIG_MAPS)


async def names(talk: Talk) -> list[str]:
    return [item["metadata"]["name"] for item in (await talk.get(CONFIG_MAPS)).body["items"]]


async def watched(talk: Talk, count: int = 5, seconds: int = 10) -> list[str]:
    """Makes so many objects and returns the names of the events of a watch over them."""
    start = talk.cluster.storage.version
    for number in range(count):
        await talk.post(CONFIG_MAPS, config_map(f"m{number}"))
    return [name for _, name in await talk.events(CONFIG_MAPS, resourceVersion=start, timeoutSeconds=seconds)]


@simulated
async def test_an_answer_for_the_nth_request() -> None:
    """Exactly the second and third matching request are answered so, and nothing is done for them."""
    async with embedded() as talk:
        fault = Answer(429, "TooManyRequests", "slow down", retry_after=7)
        injection = talk.cluster.faults.inject(fault, When(method="POST", skip=1, times=2))
        answers = [await talk.post(CONFIG_MAPS, config_map(f"m{number}")) for number in range(4)]
        assert [answer.code for answer in answers] == [201, 429, 429, 201]
        assert answers[1].headers["Retry-After"] == "7"
        assert answers[1].refusal() == (429, "TooManyRequests")
        assert await names(talk) == ["m0", "m3"]
        assert injection.hits == 2


@pytest.mark.parametrize(
    ("when", "hit"),
    [
        (ALWAYS, True),
        (When(path="/api/v1/namespaces/*/configmaps"), True),
        (When(path="/api/v1/nodes*"), False),
        (When(method="GET"), True),
        (When(method="WATCH"), False),
        (When(user_agent="aiohttp*"), False),
        (When(user_agent="Python*"), True),
        (When(probability=0.0), False),
    ],
)
@simulated
async def test_which_requests_are_hit(when: When, hit: bool) -> None:
    """Method, path and user agent are patterns."""
    async with embedded() as talk:
        talk.cluster.faults.inject(Answer(503), when)
        assert ((await talk.get(CONFIG_MAPS)).code == 503) is hit


@simulated
async def test_a_fault_can_be_taken_back() -> None:
    """One of them, or all."""
    async with embedded() as talk:
        injection = talk.cluster.faults.inject(Answer(503))
        talk.cluster.faults.inject(Answer(500))
        assert (await talk.get(CONFIG_MAPS)).code == 503
        talk.cluster.faults.remove(injection)
        assert (await talk.get(CONFIG_MAPS)).code == 500
        talk.cluster.faults.clear()
        assert (await talk.get(CONFIG_MAPS)).code == 200


@simulated
async def test_a_slow_server() -> None:
    """Time passes before a request is processed, after it, or both."""
    async with embedded() as talk:
        talk.cluster.faults.inject(Delay(before=5, after=3), When(method="POST"))
        posting = asyncio.ensure_future(talk.post(CONFIG_MAPS, config_map("a")))
        await asyncio.sleep(4)
        assert await names(talk) == []
        await asyncio.sleep(2)
        assert await names(talk) == ["a"]
        assert (await posting).code == 201
        assert asyncio.get_running_loop().time() == 8


@pytest.mark.parametrize(("processed", "there"), [(False, []), (True, ["a"])])
@simulated
async def test_a_broken_connection(processed: bool, there: list[str]) -> None:
    """The client gets an error, and does not know whether the request was processed."""
    async with embedded() as talk:
        talk.cluster.faults.inject(Drop(processed=processed), When(method="POST", times=1))
        with pytest.raises(aiohttp.ClientOSError, match="reset"):
            await talk.post(CONFIG_MAPS, config_map("a"))
        assert await names(talk) == there


@simulated
async def test_a_compaction_at_a_request() -> None:
    """The list of the next page is already too old."""
    async with embedded() as talk:
        for name in ("a", "b"):
            await talk.post(CONFIG_MAPS, config_map(name))
        token = (await talk.get(f"{CONFIG_MAPS}?limit=1")).body["metadata"]["continue"]
        await talk.post(CONFIG_MAPS, config_map("c"))
        talk.cluster.faults.inject(Compact(), When(method="GET"))
        assert (await talk.get(f"{CONFIG_MAPS}?limit=1&continue={token}")).refusal() == (410, "Expired")


@simulated
async def test_a_watch_that_breaks() -> None:
    """After so many events the connection is reset."""
    async with embedded() as talk:
        talk.cluster.faults.inject(CutWatch(after_events=2), WATCH)
        start = talk.cluster.storage.version
        for number in range(3):
            await talk.post(CONFIG_MAPS, config_map(f"m{number}"))
        with pytest.raises(aiohttp.ClientError):
            await talk.events(CONFIG_MAPS, resourceVersion=start)
        assert asyncio.get_running_loop().time() == 0


@simulated
async def test_a_watch_that_ends_early() -> None:
    """It looks as if its time were over."""
    async with embedded() as talk:
        talk.cluster.faults.inject(CutWatch(after_events=2, cleanly=True), WATCH)
        assert await watched(talk) == ["m0", "m1"]
        assert asyncio.get_running_loop().time() == 0


@simulated
async def test_a_watch_that_falls_silent() -> None:
    """It stays open and says nothing, for ever."""
    async with embedded() as talk:
        talk.cluster.faults.inject(FreezeWatch(after_events=1), WATCH)
        start = talk.cluster.storage.version
        for number in range(3):
            await talk.post(CONFIG_MAPS, config_map(f"m{number}"))
        stream = talk.watch(CONFIG_MAPS, resourceVersion=start, timeoutSeconds=10)
        assert (await anext(stream))["object"]["metadata"]["name"] == "m0"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 10_000)


@simulated
async def test_lost_and_repeated_events() -> None:
    """Single events of a stream never come, or come twice."""
    async with embedded() as talk:
        talk.cluster.faults.inject(LoseEvents(skip=1, count=2), WATCH)
        talk.cluster.faults.inject(RepeatEvents(skip=3, count=1), WATCH)
        assert await watched(talk) == ["m0", "m3", "m3", "m4"]


@simulated
async def test_chance_is_decided_by_the_seed() -> None:
    """The same seed loses the same events."""

    async def lost(seed: int) -> list[str]:
        async with embedded(seed=seed) as talk:
            talk.cluster.faults.inject(LoseEvents(count=None, probability=0.5), WATCH)
            return await watched(talk, count=20)

    assert await lost(1) == await lost(1)
    assert await lost(1) != await lost(2)


@simulated
async def test_running_watches_can_be_cut() -> None:
    """Those of one path, without any event."""
    async with embedded() as talk:
        stream = talk.watch(CONFIG_MAPS, timeoutSeconds=1000)
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(1)
        assert talk.cluster.faults.cut_watches("/api/v1/nodes") == 0
        assert talk.cluster.faults.cut_watches("*/configmaps") == 1
        with pytest.raises(aiohttp.ClientError):
            await reading
        assert talk.cluster.faults.cut_watches() == 0
