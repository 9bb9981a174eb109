"""The drawings of the decision: each is shown with what is decided as its words, and every kind of decision has one."""

from xml.etree import ElementTree as ET

import pytest

from docs.drawings import CASES, Case, drawing, plan_of, told, verdict_of
from reconciler.rebalance.plan import Wish
from reconciler.rebalance.verdict import State
from tests.docs.commands import ROOT

PAGE = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_shown_under_its_name_with_what_is_decided(case: Case) -> None:
    assert f"### {case.title}\n\n![{told(case)}](images/case-{case.name}.svg)\n" in PAGE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_drawing_is_well_formed_and_shows_each_node_twice(case: Case) -> None:
    """As it is found, and as it is left; with its reason, and loading nothing."""
    document = drawing(case)
    root = ET.fromstring(document)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert all(texts.count(node.name) == 2 for node in case.nodes)
    assert f"because {plan_of(case).reason}" in texts
    assert f"state: {verdict_of(case).state}" in texts
    assert "href" not in document


def test_every_kind_of_decision_is_drawn() -> None:
    plans = [plan_of(case) for case in CASES]
    assert {plan.wish for plan in plans} == {*Wish}
    assert any(plan.untaint for plan in plans)
    assert any(plan.evict for plan in plans)


def test_every_state_is_explained() -> None:
    assert all(f"\n| `{state}` |" in PAGE for state in State)
