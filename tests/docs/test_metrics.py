"""The metrics reference names every metric, every value of its closed lists, and every event."""

import inspect
import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from certs.reloads import Reloads
from certs.report import REASONS as CERTIFICATE_REASONS
from certs.report import Report as CertificatesReport
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.access import from_url
from ebbtide.kube.client import Client
from ebbtide.kube.traffic import Ending
from ebbtide.notices import REASONS as NOTICE_REASONS
from reconciler.engine.verdict import RESULTS
from reconciler.main import Reconciler
from reconciler.place import Place
from reconciler.readmission import stories as readmission_stories
from reconciler.readmission.decide import Wait
from reconciler.readmission.report import Report as ReadmissionReport
from reconciler.readmission.report import Result as ReadmissionResult
from reconciler.rebalance import stories
from reconciler.rebalance.answers import Result
from reconciler.rebalance.report import Report
from reconciler.rebalance.verdict import State
from reconciler.scaler.dedicated import stories as dedicated_stories
from reconciler.scaler.metrics import Cleanup, WorkerMetrics, WorkerState
from reconciler.scaler.shared import stories as shared_stories
from reconciler.scaler.shared.conditions import Reason
from reconciler.scaler.shared.report import KINDS
from reconciler.scaler.shared.report import Report as SharedReport
from reconciler.scaler.shared.stories import Subject
from tests.docs.test_load_data import VALUES as LOAD_DATA
from tests.docs.test_signals import VALUES as SIGNALS
from tests.docs.test_webhook import VALUES as ADMISSION
from tests.docs.test_workers import VALUES as WORKERS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \|", PAGE, flags=re.MULTILINE)


def test_every_metric_of_zone_rebalance_is_listed() -> None:
    registry = CollectorRegistry()
    Report(registry, SystemClock(), NodeRebalance(), None, {})
    assert told(registry) == {row for row in ROWS if row.startswith("noderebalance_")}


def test_every_metric_of_re_admission_is_listed() -> None:
    registry = CollectorRegistry()
    ReadmissionReport(registry, None)
    assert told(registry) == {row for row in ROWS if row.startswith("readmission_")}


def test_every_metric_of_certificates_is_listed() -> None:
    leader, webhook = CollectorRegistry(), CollectorRegistry()
    CertificatesReport(leader, lambda _story: None)
    Reloads(webhook)
    assert told(leader) | told(webhook) == {row for row in ROWS if row.startswith("certs_")}


def test_every_metric_of_workers_is_listed() -> None:
    registry = CollectorRegistry()
    SharedReport(registry, None, WorkerMetrics(registry), lambda: Subject("n", "pool", ""))
    assert told(registry) <= {row for row in ROWS if row.startswith("worker_scaler_")}


async def test_every_metric_of_the_process_is_listed() -> None:
    async with Client(from_url("http://127.0.0.1:1"), field_manager="test", user_agent="test") as client:
        registry = Reconciler(Settings(), client, SystemClock(), Place("ebbtide-system", "a"), dry_run=False).registry
        families = {name for name in told(registry) if name.startswith("ebbtide_")}
    assert families == {row for row in ROWS if row.startswith("ebbtide_")}


def told(registry: CollectorRegistry) -> set[str]:
    """The names under which the metrics of a registry are exposed."""
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}


def test_every_state_and_every_result_is_listed() -> None:
    values = {
        *State,
        *Result,
        *Wait,
        *ReadmissionResult,
        *RESULTS,
        *Ending,
        *ADMISSION,
        *SIGNALS,
        *LOAD_DATA,
        *WORKERS,
        *WorkerState,
        *Cleanup,
        *KINDS,
    }
    assert values == {row for row in ROWS if re.fullmatch(r"[a-z-]+", row)}


def test_every_event_is_listed() -> None:
    told_of = (stories, readmission_stories, dedicated_stories, shared_stories)
    sources = "".join(inspect.getsource(module) for module in told_of)
    reasons = re.findall(r'(?:Story\(|Event\(.*?\),)\s*"(?:Normal|Warning)", "(\w+)"', sources)
    assert {*reasons, *Reason, *CERTIFICATE_REASONS, *NOTICE_REASONS.values()} == {
        row for row in ROWS if re.fullmatch(r"([A-Z][a-z]+)+", row)
    }
