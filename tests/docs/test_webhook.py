"""The metrics reference names every metric of admission, and every value of its closed lists."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from ebbtide.exclusion.decide import Concern, Skip
from webhook.decide import Untouched
from webhook.report import Failure, Report, Result
from webhook.review import Kind

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## Admission\n")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| `([^`]+)` \|", SECTION, flags=re.MULTILINE)
VALUES = {*Kind, *Result, *Untouched, *Skip, *Concern, *Failure}


def test_every_metric_of_admission_is_listed() -> None:
    registry = CollectorRegistry()
    Report(registry, lambda: 0.0)
    told = {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}
    assert told == {row for row in ROWS if row.startswith("webhook_")}


def test_every_value_of_its_labels_is_listed() -> None:
    assert {row for row in ROWS if re.fullmatch(r"[a-z-]+", row)} == VALUES
