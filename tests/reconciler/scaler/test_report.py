"""Decisions are all counted, and logged when they are news."""

from typing import Final

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from reconciler.scaler.contract import Arrival, Place, Target
from reconciler.scaler.report import MOST_TOLD, PlacementReport, Result
from tests.reconciler.scaler.room import task

FIRST, SECOND = (Arrival(task(number), 7, 1) for number in (1, 2))
PLACE: Final = Place(task(1), 7, Target.SHARED, "http://pod:19500")


def test_a_client_that_is_told_the_same_again_and_again_is_logged_once() -> None:
    registry = CollectorRegistry()
    report = PlacementReport(registry)
    with capture_logs() as logs:
        for _ in range(3):
            report.failed(FIRST, Target.SHARED, Result.UNAVAILABLE, "all pods are full")
        report.failed(SECOND, Target.SHARED, Result.UNAVAILABLE, "all pods are full")
        report.failed(FIRST, Target.SHARED, Result.REFUSED, "it is of another cluster")
        for _ in range(2):
            report.placed(FIRST, PLACE, "small tasks go to the shared pool")
        report.failed(FIRST, Target.SHARED, Result.UNAVAILABLE, "all pods are full")
    levels = [(entry["task"][-3], entry["log_level"]) for entry in logs]
    assert levels == [
        ("1", "info"),
        ("1", "debug"),
        ("1", "debug"),
        ("2", "info"),
        ("1", "info"),
        ("1", "info"),
        ("1", "debug"),
        ("1", "info"),
    ]
    labels = {"target": "shared", "result": "unavailable"}
    assert registry.get_sample_value("worker_scaler_placements_total", labels) == 5


def test_what_was_told_is_forgotten_when_there_is_too_much_of_it() -> None:
    report = PlacementReport(CollectorRegistry())
    with capture_logs() as logs:
        for number in range(MOST_TOLD + 1):
            report.failed(Arrival(task(number), 7, 1), Target.LOCAL, Result.UNAVAILABLE, "full")
        report.failed(Arrival(task(0), 7, 1), Target.LOCAL, Result.UNAVAILABLE, "full")
        report.failed(Arrival(task(MOST_TOLD), 7, 1), Target.LOCAL, Result.UNAVAILABLE, "full")
    assert [entry["log_level"] for entry in logs[-2:]] == ["info", "debug"]
