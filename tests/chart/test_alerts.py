"""Alerts fire when they should, on metrics that exist, and each says what to do."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART, Helm, only
from tests.chart.metrics import FOREIGN, documented, metrics_of
from tests.controlplane.build import tool

ROOT = CHART.parents[1]
RULES = CHART / "files" / "alerts.yaml"
CASES = Path(__file__).parent / "alerts_test.yaml"
PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
Rule = dict[str, Any]


def rules() -> list[Rule]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(CASES.read_text())["tests"]
    return found


def promtool(*words: str) -> None:
    done = subprocess.run([tool("promtool"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))


def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    """Texts are left out: which alert of which labels is what matters here."""
    bare = yaml.safe_load(RULES.read_text())
    for group in bare["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(bare))
    tests = yaml.safe_load(CASES.read_text()) | {"rule_files": [str(tmp_path / "rules.yaml")]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    promtool("test", "rules", str(tmp_path / "tests.yaml"))


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    fire = {each["alertname"] for case in cases() for each in case["alert_rule_test"] if each["exp_alerts"]}
    assert fire == {rule["alert"] for rule in rules()}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_texts_use_only_labels_that_the_alert_has(rule: Rule) -> None:
    labels = {
        label
        for case in cases()
        for each in case["alert_rule_test"]
        if each["alertname"] == rule["alert"]
        for expected in each["exp_alerts"]
        for label in expected["exp_labels"]
    }
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    assert used <= labels


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_looks_at_metrics_that_there_are(rule: Rule) -> None:
    names = metrics_of(rule["expr"])
    assert names
    assert names - FOREIGN <= documented()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_has_a_runbook_and_stands_on_the_page(rule: Rule) -> None:
    """The page says its severity and after which time it fires."""
    runbook = (ROOT / "docs" / "runbooks" / f"{rule['alert']}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", runbook, flags=re.MULTILINE)
    assert headings == [rule["alert"], "What it means", "How to see it", "What to do"]
    after = rule.get("for", "at once").replace("m", " min")
    assert f"| [{rule['alert']}](runbooks/{rule['alert']}.md) | {rule['labels']['severity']} | {after} |" in PAGE


def test_no_runbook_is_about_an_alert_that_is_gone() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    assert pages == {rule["alert"] for rule in rules()}


async def test_the_chart_adds_addresses_and_labels_to_the_rules_and_nothing_else(tmp_path: Path) -> None:
    bare = only(await Helm("helm4", tmp_path).render({"prometheusRule": {"enabled": True}}), "PrometheusRule")
    for rule in (each for group in bare["spec"]["groups"] for each in group["rules"]):
        assert (RULES.parents[3] / rule["annotations"]["runbook"]).is_file()
    given = {"enabled": True, "alertLabels": {"team": "storage", "severity": "page"}, "runbookUrl": "https://x.test/"}
    objects = await Helm("helm4", tmp_path).render({"prometheusRule": given})
    groups = only(objects, "PrometheusRule")["spec"]["groups"]
    for rule in (each for group in groups for each in group["rules"]):
        assert rule["annotations"].pop("runbook_url") == f"https://x.test/{rule['alert']}.md"
        assert (rule["labels"].pop("team"), rule["labels"].pop("severity")) == ("storage", "page")
    plain = yaml.safe_load(RULES.read_text())["groups"]
    for rule in (each for group in plain for each in group["rules"]):
        del rule["labels"]["severity"]
    assert groups == plain
