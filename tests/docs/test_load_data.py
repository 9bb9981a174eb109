"""The pages say what the front for load data does: its metrics, requests and limits, every status that there is."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from reconciler.scaler.contract import MOST_AT_ONCE
from reconciler.scaler.front.answers import Status
from reconciler.scaler.front.app import BODY_WITHIN, LARGEST_BODY
from reconciler.scaler.front.query import Kind
from reconciler.scaler.front.report import Report
from reconciler.scaler.front.serving import HEAD_WITHIN, LONGEST_LINE

DOCS = Path(__file__).resolve().parents[2] / "docs"
METRICS, PAGE = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("metrics", "worker-scaler"))
SECTION = METRICS.split("\n## Worker scaler\n")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| `([^`]+)` \|", SECTION, flags=re.MULTILINE)
VALUES = {*Kind}


def test_every_metric_of_the_front_is_listed() -> None:
    registry = CollectorRegistry()
    Report(registry)
    told = {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}
    assert told == {row for row in ROWS if row.startswith("worker_scaler_request")}


def test_every_kind_of_request_is_listed() -> None:
    assert {*ROWS} >= VALUES


def test_every_status_is_described_and_no_other() -> None:
    answers = PAGE.split("### Errors")[0] + "".join(re.findall(r"^\| \d+.*$", PAGE, flags=re.MULTILINE))
    assert {int(code) for code in re.findall(r"\b([2345]\d\d)\b", answers)} == {*Status}


def test_limits_are_told_as_they_are() -> None:
    assert f"may have {LONGEST_LINE} bytes" in PAGE
    assert HEAD_WITHIN == BODY_WITHIN == 10.0
    assert "ten seconds to come in" in PAGE
    assert f"up to {LARGEST_BODY // 1024} KiB are read" in PAGE
    assert f"{MOST_AT_ONCE:,} requests may wait" in PAGE
