"""What the front tells of requests, when they come from anybody and in any number."""

import asyncio

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from ebbtide.sim.time import simulate
from reconciler.scaler.front import answers
from reconciler.scaler.front.query import Kind
from reconciler.scaler.front.report import REFUSALS_EVERY, Report


def test_a_flood_of_bad_requests_is_one_line_a_minute() -> None:
    """For each kind of request, with the number of those that have none; each is counted."""

    async def flood() -> None:
        registry = CollectorRegistry()
        report = Report(registry)
        with capture_logs() as lines:
            for number in range(1000):
                report.answered(Kind.INIT, answers.refused(f"task {number}"), 0.001)
            report.answered(Kind.LIST, answers.refused("no cluster"), 0.001)
            await asyncio.sleep(REFUSALS_EVERY - 1)
            report.answered(Kind.INIT, answers.refused("early"), 0.001)
            await asyncio.sleep(1)
            report.answered(Kind.INIT, answers.refused("late"), 0.001)
        told = [(line["request"], line["why"], line["others_since_the_last"]) for line in lines]
        assert told == [("init", "task 0", 0), ("list", "no cluster", 0), ("init", "late", 1000)]
        labels = {"request": "init", "code": "400"}
        assert registry.get_sample_value("worker_scaler_requests_total", labels) == 1002

    simulate(flood())


def test_what_is_no_refusal_is_not_told() -> None:
    """Clients come again every few seconds."""

    async def usual() -> None:
        report = Report(CollectorRegistry())
        with capture_logs() as lines:
            for answer in (answers.DONE, answers.later("soon"), answers.not_found("unknown")):
                report.answered(Kind.STATE, answer, 0.001)
        assert not lines

    simulate(usual())
