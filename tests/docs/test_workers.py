"""The metrics reference on tasks and workers: every metric that the leader tells, every value of its closed lists."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from reconciler.scaler.pool import Phase, Target
from reconciler.scaler.report import PlacementReport, Result, StatusReport, TaskFigures
from reconciler.scaler.shared.facts import State

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = set(re.findall(r"^\| `([^`]+)` \|", PAGE, flags=re.MULTILINE))
VALUES = {*Target, *Phase, *Result}


def told(registry: CollectorRegistry) -> set[str]:
    """The names under which the metrics of a registry are exposed."""
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}


def test_every_metric_about_tasks_is_listed() -> None:
    registry = CollectorRegistry()
    PlacementReport(registry)
    StatusReport(registry)
    TaskFigures(registry, tuple)
    assert told(registry) <= ROWS


def test_every_value_is_listed() -> None:
    assert VALUES <= ROWS


def test_every_state_of_a_pool_pod_is_described() -> None:
    status = (Path(__file__).resolve().parents[2] / "docs" / "status.md").read_text(encoding="utf-8")
    [row] = [line for line in status.splitlines() if line.startswith("| `workers.shared`")]
    assert set(re.findall(r"`([^`]+)`", row)) >= {*State}
