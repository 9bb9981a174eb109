"""The controller: keys in, reconciles one at a time per key, and the retry that each outcome earns."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import structlog
from structlog.testing import capture_logs

from ebbtide.kube.errors import Conflict, Forbidden, NotFound, NotLeading, Throttled, Unreachable
from ebbtide.sim.time import simulate
from reconciler.engine.controller import Again, Controller
from reconciler.engine.queue import RateLimit, RetryDelay, WorkQueue


def steady() -> WorkQueue[str]:
    return WorkQueue(RetryDelay(first=1.0, jitter=0.0), RateLimit(1000.0, 1000), chance=lambda: 0.0)


def now() -> float:
    return asyncio.get_running_loop().time()


class Script:
    """A reconcile that answers from a list, then None; remembers when it was called for which key."""

    def __init__(self, *answers: Again | Exception | None) -> None:
        self._answers = list(answers)
        self.calls: list[tuple[str, float]] = []

    async def __call__(self, key: str) -> Again | None:
        self.calls.append((key, now()))
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


async def run_for(seconds: float, controller: Controller[str]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await controller.run()


def times_of(script: Script, seconds: float = 1000.0) -> list[float]:
    """When a controller calls `script` for one key that was added once."""

    async def main() -> None:
        controller = Controller("test", script, queue=steady())
        controller.queue.add("a")
        await run_for(seconds, controller)

    simulate(main())
    return [time for _, time in script.calls]


@pytest.mark.parametrize(
    ("answers", "times"),
    [
        pytest.param([None], [0], id="done: not again"),
        pytest.param([Again(30), Again(5)], [0, 30, 35], id="again: when it said"),
        pytest.param([Conflict("PATCH", 409)] * 2, [0, 0.005, 0.015], id="conflict: soon, then slower"),
        pytest.param([NotFound("GET", 404)], [0], id="not found: dropped"),
        pytest.param([NotLeading("no lease")], [0], id="not leading: dropped"),
        pytest.param([Throttled("PATCH", 429, retry_after=7.0)], [0, 7], id="throttled: when the server said"),
        pytest.param([Throttled("PATCH", 429)] * 2, [0, 1, 3], id="throttled without a time: back-off"),
        pytest.param([Unreachable("PATCH", "reset")] * 3, [0, 1, 3, 7], id="unreachable: back-off"),
        pytest.param([Forbidden("PATCH", 403)] * 2, [0, 10, 30], id="forbidden: slow"),
        pytest.param([ValueError("bug")] * 2, [0, 1, 3], id="defect: back-off"),
        pytest.param([ValueError("bug"), None, ValueError("bug")], [0, 1], id="success ends the repetitions"),
    ],
)
def test_each_outcome_has_its_retry(answers: list[Again | Exception | None], times: list[float]) -> None:
    assert times_of(Script(*answers)) == pytest.approx(times)


def test_after_a_success_the_back_off_starts_from_the_shortest() -> None:
    bug = ValueError("bug")
    assert times_of(Script(bug, bug, Again(10), bug)) == pytest.approx([0, 1, 3, 13, 14])


def test_a_key_that_fails_does_not_stop_the_others() -> None:
    async def main() -> set[str]:
        seen: set[str] = set()

        async def reconcile(key: str) -> None:
            if key == "bad":
                raise ValueError("bug")
            seen.add(key)

        controller = Controller("test", reconcile, queue=steady())
        for key in ("bad", "a", "b"):
            controller.queue.add(key)
        await run_for(0.5, controller)
        return seen

    assert simulate(main()) == {"a", "b"}


def test_workers_share_the_keys_but_never_one_key() -> None:
    async def main() -> tuple[int, list[str]]:
        running: list[str] = []
        twice: list[str] = []
        most = 0

        async def reconcile(key: str) -> None:
            nonlocal most
            twice.extend({key} & set(running))
            running.append(key)
            most = max(most, len(running))
            controller.queue.add(key)
            await asyncio.sleep(1)
            running.remove(key)

        controller = Controller("test", reconcile, workers=3, queue=steady())
        for key in "abcde":
            controller.queue.add(key)
        await run_for(50, controller)
        return most, twice

    assert simulate(main()) == (3, [])


def test_each_run_begins_with_everything_there_is_and_goes_over_it_again_every_period() -> None:
    async def main() -> list[tuple[str, float]]:
        script = Script()
        controller = Controller("test", script, queue=steady(), everything=lambda: ["a", "b"], resync_period=60)
        await run_for(61, controller)
        await run_for(1, controller)
        return script.calls

    assert simulate(main()) == [("a", 0), ("b", 0), ("a", 60), ("b", 60), ("a", 61), ("b", 61)]


def test_a_key_that_was_cut_off_by_the_end_of_a_term_is_looked_at_in_the_next() -> None:
    async def main() -> list[str]:
        calls: list[str] = []

        async def reconcile(key: str) -> None:
            calls.append(key)
            await asyncio.sleep(10 if len(calls) == 1 else 0)

        controller = Controller("test", reconcile, queue=steady())
        controller.queue.add("a")
        await run_for(5, controller)
        await run_for(5, controller)
        return calls

    assert simulate(main()) == ["a", "a"]


async def swallowed() -> None:
    """Of a cancellation nothing is left."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(10)


async def replaced() -> None:
    """A cancellation becomes a failure, which would be repeated."""
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        raise NotLeading("no lease") from None


async def grouped() -> None:
    """A task fails while its group is being cancelled."""

    async def refused() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        raise NotLeading("no lease")

    async with asyncio.TaskGroup() as group:
        group.create_task(refused())


@pytest.mark.parametrize("wait", [swallowed, replaced, grouped])
def test_a_term_ends_although_a_reconcile_swallows_its_cancellation(wait: Callable[[], Awaitable[None]]) -> None:
    """And the key is looked at in the next term, as one that was cut off."""

    async def main() -> tuple[bool, list[tuple[str, float]]]:
        calls: list[tuple[str, float]] = []

        async def reconcile(key: str) -> None:
            calls.append((key, now()))
            await wait()

        controller = Controller("test", reconcile, queue=steady())
        controller.queue.add("a")
        term = asyncio.ensure_future(controller.run())
        await asyncio.sleep(5)
        term.cancel()
        await asyncio.wait([term], timeout=100)
        ended = term.cancelled()
        await run_for(1, controller)
        return ended, calls

    assert simulate(main()) == (True, [("a", 0), ("a", 5)])


def test_draining_finishes_what_is_under_way_and_begins_nothing_new() -> None:
    async def main() -> tuple[list[str], float]:
        finished: list[str] = []

        async def reconcile(key: str) -> None:
            await asyncio.sleep(10)
            finished.append(key)

        controller = Controller("test", reconcile, queue=steady(), everything=lambda: ["a", "b"], resync_period=7)
        asyncio.get_running_loop().call_later(5, controller.drain)
        await controller.run()
        return finished, now()

    assert simulate(main()) == (["a"], 10)


def test_the_age_of_the_oldest_work_under_way_can_be_asked() -> None:
    async def main() -> list[float]:
        ages: list[float] = []
        controller = Controller("test", lambda _key: asyncio.sleep(10, None), queue=steady())
        ages.append(controller.longest())
        controller.queue.add("a")
        for moment in (4, 12):
            asyncio.get_running_loop().call_later(moment, lambda: ages.append(controller.longest()))
        await run_for(20, controller)
        return ages

    assert simulate(main()) == [0, 4, 0]


def test_every_reconcile_is_measured_with_its_result() -> None:
    async def main() -> list[tuple[float, str]]:
        measured: list[tuple[float, str]] = []
        script = Script(Again(5), Conflict("PATCH", 409), None)
        controller = Controller("test", script, queue=steady(), measure=lambda *of: measured.append(of))
        controller.queue.add("a")
        await run_for(20, controller)
        return measured

    assert simulate(main()) == [(0, "again"), (0, "conflict"), (0, "done")]


def logged(*answers: Again | Exception | None) -> list[tuple[str, object]]:
    """Level and result of what is logged above debug for one key."""
    with capture_logs() as entries:
        times_of(Script(*answers))
    return [(entry["log_level"], entry.get("result")) for entry in entries if entry["log_level"] != "debug"]


@pytest.mark.parametrize(
    ("answers", "lines"),
    [
        pytest.param([Forbidden("PATCH", 403)] * 3, [("warning", "forbidden")], id="a refusal once"),
        pytest.param(
            [Forbidden("PATCH", 403), Again(1), Forbidden("PATCH", 403)], [("warning", "forbidden")] * 2, id="and anew"
        ),
        pytest.param([Conflict("PATCH", 409)] * 3, [], id="a conflict not at all"),
        pytest.param([ValueError("bug")] * 2, [("error", None)] * 2, id="a defect always"),
    ],
)
def test_a_failure_is_told_as_often_as_it_is_news(
    answers: list[Again | Exception | None], lines: list[tuple[str, object]]
) -> None:
    assert logged(*answers) == lines


def test_log_lines_of_a_reconcile_carry_controller_and_key() -> None:
    async def main() -> dict[str, object]:
        seen: dict[str, object] = {}

        async def reconcile(_key: str) -> None:
            seen.update(structlog.contextvars.get_contextvars())

        controller = Controller("test", reconcile, queue=steady())
        controller.queue.add("a")
        await run_for(1, controller)
        return seen

    assert simulate(main()) == {"controller": "test", "key": "a"}
