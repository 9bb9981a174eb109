"""Which metrics an expression of Prometheus reads, and which there are."""

import json
import re
from typing import Final

import yaml

from tests.chart.helm import CHART

_PAGE = CHART.parents[1] / "docs" / "metrics.md"
# Told by the API server, not by us.
FOREIGN: Final = frozenset({"apiserver_admission_webhook_fail_open_count"})
_LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\{[^}]*\}|\"[^\"]*\"")
_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b(?!\s*\()")
_PARTS = re.compile(r"_(bucket|count|sum)$")


def documented() -> frozenset[str]:
    """The metrics of the reference, which other tests hold to the code."""
    rows = re.findall(r"^\| `([a-z_]+)` \|", _PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return frozenset(rows)


def metrics_of(expression: str) -> frozenset[str]:
    """Names of metrics; a histogram's by its own name. Functions with an underscore are followed by a bracket."""
    names = set(_NAME.findall(_LABELS.sub(" ", expression)))
    whole = {_PARTS.sub("", name) for name in names if _PARTS.search(name)} & documented()
    return frozenset({name for name in names if _PARTS.sub("", name) not in whole} | whole)


def expressions() -> list[str]:
    """Every question of an alert or of a panel of the dashboard."""
    rules = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    panels = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return found + [target["expr"] for panel in panels for target in panel.get("targets", ())]


def asked_of_prometheus() -> frozenset[str]:
    """Every metric of ours that an alert or a panel of the dashboard reads."""
    return frozenset().union(*map(metrics_of, expressions())) - FOREIGN
