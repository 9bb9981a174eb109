"""Whether a PodDisruptionBudget would refuse the eviction of a pod now: read off its status, nothing is asked for.

Follows k8s.io/kubernetes `pkg/registry/core/pod/storage/eviction.go`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

Raw = Mapping[str, Any]

# Evicting these disrupts nobody any more, or not yet.
_IGNORES_BUDGETS: Final = ("Pending", "Succeeded", "Failed")


def refusal(pod: Raw, budgets: Iterable[Raw]) -> str:
    """Why the API server would refuse to evict the pod, "" if it would not; `budgets` may be of any namespaces."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    if metadata.get("deletionTimestamp") or status.get("phase") in _IGNORES_BUDGETS:
        return ""
    selecting = [budget for budget in budgets if _selects(budget, metadata)]
    if len(selecting) > 1:
        names = ", ".join(sorted(_name(budget) for budget in selecting))
        return f"more than one PodDisruptionBudget selects it ({names}), which the API server refuses"
    return _of_one(pod, selecting[0]) if selecting else ""


def _of_one(pod: Raw, budget: Raw) -> str:
    status, spec = budget.get("status") or {}, budget.get("spec") or {}
    healthy, desired = int(status.get("currentHealthy") or 0), int(status.get("desiredHealthy") or 0)
    if not _is_ready(pod) and (spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0):
        return ""
    if int(status.get("observedGeneration") or 0) < int(budget["metadata"].get("generation") or 0):
        return f"PodDisruptionBudget {_name(budget)} has just changed and its status is not known yet"
    if int(status.get("disruptionsAllowed") or 0) > 0:
        return ""
    return f"PodDisruptionBudget {_name(budget)} allows no disruption now: {healthy} pods healthy, {desired} demanded"


def _selects(budget: Raw, pod: Raw) -> bool:
    """An absent selector selects nothing, an empty one every pod of the namespace (policy/v1)."""
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None or budget["metadata"].get("namespace") != pod.get("namespace"):
        return False
    labels = pod.get("labels") or {}
    wanted = (selector.get("matchLabels") or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _holds(expression, labels) for expression in selector.get("matchExpressions") or ()
    )


def _holds(expression: Raw, labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key"), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(str(key)) in values
        case "NotIn":
            return labels.get(str(key)) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def _is_ready(pod: Raw) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _name(budget: Raw) -> str:
    return f"{budget['metadata'].get('namespace')}/{budget['metadata']['name']}"
