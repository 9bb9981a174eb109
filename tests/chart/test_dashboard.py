"""Every panel of the Grafana dashboard shows something that there is."""

import json
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.chart.helm import CHART, Helm, only
from tests.chart.metrics import FOREIGN, documented, metrics_of
from tests.controlplane.build import tool

DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
# What Grafana puts in their places.
VARIABLES = {"$__rate_interval": "5m", "$node_group": ".*"}
Panel = dict[str, Any]


def expressions(panel: Panel) -> list[str]:
    return [_filled(target["expr"]) for target in panel["targets"]]


def _filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_metrics_that_there_are(panel: Panel) -> None:
    assert panel["description"].endswith(".")
    for expression in expressions(panel):
        names = metrics_of(expression)
        assert names
        assert names - FOREIGN <= documented()


def test_prometheus_understands_every_question(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{panel['id']}:{number}", "expr": expression}
        for panel in PANELS
        for number, expression in enumerate(expressions(panel))
    ]
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checking = [str(tool("promtool")), "check", "rules", str(tmp_path / "rules.yaml")]
    done = subprocess.run(checking, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_legend_names_is_in_the_answer() -> None:
    """Each `{{label}}` is one that the expression groups by."""
    for panel in PANELS:
        for target in panel["targets"]:
            for label in target["legendFormat"].split("{{")[1:]:
                assert f"{label.split('}}')[0]}" in target["expr"].split("by (", 1)[1].split(")")[0], panel["title"]


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for one, other in combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


async def test_the_config_map_has_the_file_as_it_is(tmp_path: Path) -> None:
    objects = await Helm("helm4", tmp_path).render({"dashboard": {"enabled": True}})
    found = only(objects, "ConfigMap", "ebbtide-dashboard")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["ebbtide.json"]) == DASHBOARD
