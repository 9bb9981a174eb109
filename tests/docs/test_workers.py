"""The metrics reference on tasks and workers: every metric that the leader tells, every value of its closed lists."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.access import from_url
from ebbtide.kube.client import Client
from reconciler.main import Reconciler
from reconciler.place import Place
from reconciler.scaler.contract import Phase, Target
from reconciler.scaler.report import PlacementReport, Result, StatusReport, TaskMetrics
from reconciler.scaler.shared.facts import PodState

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
    TaskMetrics(registry, tuple)
    assert told(registry) <= ROWS


def test_every_value_is_listed() -> None:
    assert VALUES <= ROWS


def test_every_state_of_a_pool_pod_is_described() -> None:
    status = (Path(__file__).resolve().parents[2] / "docs" / "status.md").read_text(encoding="utf-8")
    [row] = [line for line in status.splitlines() if line.startswith("| `workers.shared`")]
    assert set(re.findall(r"`([^`]+)`", row)) >= {*PodState}


async def test_every_metric_of_the_worker_scaler_is_listed_and_no_other() -> None:
    settings = Settings(worker_scaler=WorkerScaler(run=True))
    async with Client(from_url("http://127.0.0.1:1"), field_manager="test", user_agent="test") as client:
        registry = Reconciler(settings, client, SystemClock(), Place("ebbtide-system", "a"), dry_run=False).registry
        names = {name for name in told(registry) if name.startswith("worker_scaler_")}
    # Told only while it leads.
    assert names | {"worker_scaler_tasks"} == {row for row in ROWS if row.startswith("worker_scaler_")}
