"""Labels and their values in the questions of alerts and dashboard are such as the programs tell: a misspelt one would
never be answered, and nobody would notice."""

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from reconciler.rebalance.verdict import State
from reconciler.scaler.metrics import WorkerState
from reconciler.scaler.report import Result as Placement
from reconciler.scaler.shared.conditions import Reason
from tests.chart.helm import CHART, Helm
from tests.chart.metrics import FOREIGN, expressions, metrics_of

PAGE: Final = (CHART.parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")
# What each label that is asked for by its value can be, in the code that tells it.
CLOSED: Final[Mapping[tuple[str, str], Container[str]]] = {
    ("noderebalance_block_state", "state"): frozenset(State),
    ("worker_scaler_placements_total", "result"): frozenset(Placement),
    ("worker_scaler_shared_condition", "reason"): frozenset(Reason),
    ("worker_scaler_workers", "state"): frozenset(WorkerState),
    ("ebbtide_build_info", "program"): frozenset(("agent", "reconciler", "webhook")),
}
# Labels of what is scraped, which Prometheus adds, and that of the buckets of a histogram.
ADDED: Final = frozenset(("pod", "le"))
# What Grafana puts in: any value that there is.
VARIABLE: Final = "$node_group"
_SELECTOR: Final = re.compile(r"\b([a-z]\w+)\{([^}]*)\}")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED: Final = re.compile(r"\bby \(([^)]*)\)")


@dataclass(frozen=True)
class Matcher:
    """One condition of a question: `metric{label operator "value"}`."""

    metric: str
    label: str
    operator: str
    value: str

    @property
    def alternatives(self) -> list[str]:
        """The values that are meant. Only plain alternatives are understood."""
        return self.value.split("|") if "~" in self.operator else [self.value]


def matchers() -> Iterator[Matcher]:
    for expression in expressions():
        for metric, text in _SELECTOR.findall(expression):
            yield from (Matcher(metric, *found) for found in _MATCHER.findall(text))


def labels_of(metric: str) -> frozenset[str]:
    """Those that the reference names."""
    row = re.search(rf"^\| `{metric}` \| \w+ \|([^|]*)\|", PAGE, flags=re.MULTILINE)
    assert row is not None, metric
    return frozenset(re.findall(r"`(\w+)`", row[1]))


def test_every_label_is_asked_for_by_a_value_that_it_can_have() -> None:
    asked = set()
    for each in matchers():
        if each.metric in FOREIGN or each.value == VARIABLE:
            continue
        closed = CLOSED[each.metric, each.label]
        assert [value for value in each.alternatives if value not in closed] == [], each
        asked.add((each.metric, each.label))
    assert asked == CLOSED.keys()


def test_every_label_is_one_that_the_metric_has() -> None:
    for each in matchers():
        assert each.metric in FOREIGN or each.label in labels_of(each.metric), each


@pytest.mark.parametrize("expression", expressions())
def test_what_is_grouped_by_is_a_label_of_what_is_counted(expression: str) -> None:
    known = {label for metric in metrics_of(expression) - FOREIGN for label in labels_of(metric)}
    grouped = {label for found in _GROUPED.findall(expression) for label in found.split(", ")}
    foreign = {"name"} if metrics_of(expression) & FOREIGN else set()
    assert grouped <= known | ADDED | foreign


async def test_the_api_server_s_own_metric_is_asked_for_about_all_of_our_registrations(tmp_path: Path) -> None:
    """It names the entries of the webhook configurations; others' are none of our business."""
    found = [each for each in await Helm("helm4", tmp_path).render() if each["kind"] == "MutatingWebhookConfiguration"]
    names = [entry["name"] for each in found for entry in each["webhooks"]]
    asked = {(each.label, each.operator, each.value) for each in matchers() if each.metric in FOREIGN}
    assert names
    for label, operator, value in asked:
        assert (label, operator) == ("name", "=~")
        assert [name for name in names if not re.fullmatch(value, name)] == []
        assert re.fullmatch(value, "pods.example.com") is None
