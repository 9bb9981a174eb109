"""Which budget refuses an eviction now, read off its status."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from ebbtide.sim import objects
from reconciler.explain.budgets import refusal

POD = objects.pod("db-0", node="a1", labels={"app": "db", "tier": "data"})
UNREADY = objects.pod("db-0", node="a1", labels={"app": "db"}, ready=False)


def budget(name: str = "db", *, allowed: int = 0, healthy: int = 3, desired: int = 3, **spec: Any) -> dict[str, Any]:
    """A budget over `app: db` that allows nothing, with its status."""
    body = objects.budget(name, match={"app": "db"}, max_unavailable=0)
    status = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired}
    return objects.changed(body, {"spec": spec, "status": status})


@dataclass(frozen=True)
class Case:
    """A pod, the budgets around it, and words of the refusal (none: not refused)."""

    name: str
    budgets: list[dict[str, Any]]
    words: tuple[str, ...] = ()
    pod: dict[str, Any] = field(default_factory=lambda: POD)


CASES = [
    Case("no budget", []),
    Case("one that allows some", [budget(allowed=1)]),
    Case("one that allows none", [budget()], ("default/db", "allows no disruption now", "3 pods healthy, 3 demanded")),
    Case("two of them", [budget(), budget("second", allowed=5)], ("more than one", "default/db, default/second")),
    Case("one of another namespace", [objects.changed(budget(), {"metadata": {"namespace": "other"}})]),
    Case("one for other pods", [budget(selector={"matchLabels": {"app": "web"}})]),
    Case("one without a selector", [budget(selector=None)]),
    Case("one for all pods", [budget(selector={"matchLabels": {"app": None}})], ("default/db",)),
    Case(
        "expressions that hold",
        [
            budget(
                selector={
                    "matchExpressions": [
                        {"key": "tier", "operator": "In", "values": ["data"]},
                        {"key": "tier", "operator": "NotIn", "values": ["web"]},
                        {"key": "app", "operator": "Exists"},
                        {"key": "gone", "operator": "DoesNotExist"},
                    ]
                }
            )
        ],
        ("default/db",),
    ),
    Case(
        "an expression that does not",
        [budget(selector={"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["data"]}]})],
    ),
    Case("a pod that has no node yet", [budget()], pod=objects.pod("db-0", labels={"app": "db"})),
    Case(
        "a pod that is going",
        [budget()],
        pod=objects.changed(POD, {"metadata": {"deletionTimestamp": objects.LONG_AGO}}),
    ),
    Case("an unready pod of a healthy set", [budget()], pod=UNREADY),
    Case("an unready pod of an ailing set", [budget(healthy=2)], ("2 pods healthy",), pod=UNREADY),
    Case("unless those may always go", [budget(healthy=2, unhealthyPodEvictionPolicy="AlwaysAllow")], pod=UNREADY),
    Case(
        "one whose status is behind",
        [objects.changed(budget(allowed=3), {"metadata": {"generation": 2}, "status": {"observedGeneration": 1}})],
        ("has just changed",),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_refusal_names_its_budget_and_the_figures(case: Case) -> None:
    said = refusal(case.pod, case.budgets)
    assert bool(said) == bool(case.words)
    assert all(words in said for words in case.words), said
