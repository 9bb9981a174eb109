"""The metrics reference names every metric, every value of its closed lists, and every event."""

import inspect
import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from ebbtide.clock import SystemClock
from ebbtide.config.rebalance import NodeRebalance
from reconciler.rebalance import stories
from reconciler.rebalance.answers import Result
from reconciler.rebalance.report import Report
from reconciler.rebalance.verdict import State

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \|", PAGE, flags=re.MULTILINE)


def test_every_metric_of_zone_rebalance_is_listed() -> None:
    registry = CollectorRegistry()
    Report(registry, SystemClock(), NodeRebalance(), None)
    told = {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}
    assert told == {row for row in ROWS if row.startswith("noderebalance_")}


def test_every_state_and_every_result_is_listed() -> None:
    assert {*State, *Result} == {row for row in ROWS if re.fullmatch(r"[a-z-]+", row)}


def test_every_event_is_listed() -> None:
    reasons = re.findall(r'Story\(\s*"(?:Normal|Warning)", "(\w+)"', inspect.getsource(stories))
    assert set(reasons) == {row for row in ROWS if re.fullmatch(r"([A-Z][a-z]+)+", row)}
