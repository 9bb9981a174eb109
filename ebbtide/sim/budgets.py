"""PodDisruptionBudgets: how many pods of one may go now, and the eviction that asks.

The real server decides by the status that its disruption controller keeps; here the answer is computed at the moment
of the question, so that it is never behind. Follows k8s.io/kubernetes `pkg/registry/core/pod/storage/eviction.go` and
`pkg/controller/disruption/disruption.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final

from ebbtide.sim import kinds
from ebbtide.sim.deletion import Deletion, check_preconditions
from ebbtide.sim.kinds import POD_DISRUPTION_BUDGETS, PODS, kind_of
from ebbtide.sim.refusals import BadRequest, PlainFault, TooManyRequests
from ebbtide.sim.selectors import matches
from ebbtide.sim.storage import Storage, Write
from ebbtide.sim.stored import Object, Stored

# Evicting these disrupts nobody any more, or not yet.
_IGNORES_BUDGET: Final = frozenset({"Succeeded", "Failed", "Pending"})
_EVICTED_BY: Final = Write(manager="kube-apiserver", subresource="status")


class SeveralBudgets(PlainFault):
    """More than one budget selects the pod."""

    def __init__(self) -> None:
        super().__init__(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )


@dataclass(frozen=True, slots=True)
class Assessment:
    """The state of one budget. `trouble` says why it could not be computed; nothing is allowed then."""

    expected: int
    healthy: int
    desired: int
    trouble: str = ""

    @property
    def allowed(self) -> int:
        if self.trouble or self.expected <= 0:
            return 0
        return max(0, self.healthy - self.desired)


def evict(storage: Storage, namespace: str, name: str, options: Deletion) -> None:
    """Deletes the pod gracefully if its budget allows.

    Raises NotFound, PreconditionFailed, TooManyRequests (cause `DisruptionBudget`), SeveralBudgets, and Forbidden when
    the namespace is going.
    """
    storage.require_namespace(PODS, name, namespace)
    pod = storage.find(PODS, name, namespace)
    if not pod.deleting and pod.body["status"].get("phase") not in _IGNORES_BUDGET:
        _ask_budget(storage, pod)
    check_preconditions(pod, options)
    if not options.dry_run:
        marked = storage.modify(PODS, name, namespace, lambda body: _disrupted(body, storage.now()), _EVICTED_BY)
        if options.resource_version:
            options = replace(options, resource_version=str(marked.version))
    storage.delete(PODS, name, namespace, options)


def assess(storage: Storage, budget: Stored) -> Assessment:
    """Counts the pods that the budget selects."""
    spec = budget.body.get("spec", {})
    pods = [pod for pod in storage.scan(PODS, budget.namespace) if _selects(budget, pod)]
    healthy = sum(ready(pod.body) and not pod.deleting for pod in pods)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is None and not isinstance(least, str):
        return Assessment(len(pods), healthy, int(least or 0))
    try:
        expected = _scale(storage, pods)
    except LookupError as missing:
        return Assessment(0, healthy, 0, str(missing))
    if most is not None:
        return Assessment(expected, healthy, max(0, expected - _share(most, expected)))
    return Assessment(expected, healthy, _share(least, expected))


def ready(pod: Mapping[str, Any]) -> bool:
    """Whether the condition Ready is True."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def eviction_options(body: Mapping[str, Any], name: str) -> Deletion:
    """The options of a `policy/v1` Eviction; raises BadRequest."""
    if body.get("metadata", {}).get("name", name) != name:
        raise BadRequest("name in URL does not match name in Eviction object")
    return delete_options(body.get("deleteOptions") or {})


def delete_options(body: Mapping[str, Any]) -> Deletion:
    """Reads `v1.DeleteOptions`."""
    preconditions = body.get("preconditions") or {}
    return Deletion(
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        grace_seconds=body.get("gracePeriodSeconds"),
        propagation=body.get("propagationPolicy") or "",
        dry_run=bool(body.get("dryRun")),
    )


class BudgetStatus:
    """Keeps the status of the budgets as the disruption controller does, for those who read it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._subscription = storage.subscribe(lambda event: self._update(event.stored.namespace), PODS, *_AFFECTING)

    def close(self) -> None:
        self._subscription.close()

    def _update(self, namespace: str) -> None:
        for budget in self._storage.scan(POD_DISRUPTION_BUDGETS, namespace):
            body = budget.copy()
            body["status"] |= _status(body, assess(self._storage, budget), self._storage.now())
            self._storage.update_status(POD_DISRUPTION_BUDGETS, body)


_AFFECTING: Final = (POD_DISRUPTION_BUDGETS, kinds.STATEFUL_SETS, kinds.REPLICA_SETS)


def _status(body: Object, assessment: Assessment, now: str) -> Object:
    allowed = assessment.allowed
    reason = "SufficientPods" if allowed else "InsufficientPods"
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": body["metadata"].get("generation", 0),
        "reason": "SyncFailed" if assessment.trouble else reason,
        "message": assessment.trouble,
    }
    before: Object = next(iter(body["status"].get("conditions", ())), {})
    unchanged = before.get("status") == condition["status"]
    condition["lastTransitionTime"] = before["lastTransitionTime"] if unchanged else now
    return {
        "observedGeneration": body["metadata"].get("generation", 0),
        "currentHealthy": assessment.healthy,
        "desiredHealthy": assessment.desired,
        "disruptionsAllowed": allowed,
        "expectedPods": assessment.expected,
        "conditions": [condition],
    }


def _ask_budget(storage: Storage, pod: Stored) -> None:
    budgets = [budget for budget in storage.scan(POD_DISRUPTION_BUDGETS, pod.namespace) if _selects(budget, pod)]
    if len(budgets) > 1:
        raise SeveralBudgets
    for budget in budgets:
        assessment = assess(storage, budget)
        if not ready(pod.body) and _may_lose_unhealthy(budget, assessment):
            return
        if assessment.allowed == 0:
            raise _refused(budget.name, assessment)


def _may_lose_unhealthy(budget: Stored, assessment: Assessment) -> bool:
    if budget.body.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return assessment.healthy >= assessment.desired > 0


def _refused(name: str, assessment: Assessment) -> TooManyRequests:
    text = f"The disruption budget {name} "
    if assessment.trouble:
        text += f"does not allow evicting pods currently because it failed sync: {assessment.trouble}"
    elif assessment.healthy <= assessment.desired:
        text += f"needs {assessment.desired} healthy pods and has {assessment.healthy} currently"
    else:
        text += "does not allow evicting pods currently"
    cause = {"reason": "DisruptionBudget", "message": text}
    return TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", causes=(cause,))


def _disrupted(pod: Object, now: str) -> Object:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    if not any(condition["type"] == "DisruptionTarget" for condition in conditions):
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "lastTransitionTime": now,
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
        )
    return pod


def _selects(budget: Stored, pod: Stored) -> bool:
    return matches(budget.body.get("spec", {}).get("selector"), pod.body["metadata"].get("labels", {}))


def _scale(storage: Storage, pods: list[Stored]) -> int:
    """How many pods their controllers want together; raises LookupError for a controller that is not there.

    Pods without a controller do not count.
    """
    wanted: dict[str, int] = {}
    for pod in pods:
        references = pod.body["metadata"].get("ownerReferences", ())
        owner = next((entry for entry in references if entry.get("controller")), None)
        if owner is not None and owner["uid"] not in wanted:
            wanted[owner["uid"]] = _replicas(storage, pod, owner)
    return sum(wanted.values())


def _replicas(storage: Storage, pod: Stored, owner: Mapping[str, Any]) -> int:
    kind = kind_of(owner["apiVersion"], owner["kind"])
    stored = storage.peek(kind, owner["name"], pod.namespace) if kind else None
    if stored is None or stored.uid != owner["uid"] or "replicas" not in stored.body.get("spec", {}):
        raise LookupError(f'found no controllers for pod "{pod.name}"')
    return int(stored.body["spec"]["replicas"])


def _share(amount: int | str, whole: int) -> int:
    """A number, or a percentage rounded up."""
    if isinstance(amount, str):
        return ceil(int(amount.rstrip("%")) * whole / 100)
    return amount
