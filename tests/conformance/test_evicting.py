"""Evictions: every answer that ebbtide tells apart."""

import asyncio
from typing import Any

import pytest

from ebbtide.kube.errors import BudgetRefused, Misconfigured, NotFound, PreconditionFailed
from ebbtide.kube.resources import PDBS, PODS, STATEFUL_SETS
from tests.conformance.subject import Subject

STRANGER = "11111111-2222-3333-4444-555555555555"


async def _budget(subject: Subject, name: str, labels: dict[str, str], allowed: int, **bound: Any) -> None:
    """A budget that the disruption controller has dealt with."""
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, **bound}}
    created = await subject.client.create(PDBS, body, namespace=subject.namespace)

    async def known() -> bool:
        status = (await subject.client.get(PDBS, name, namespace=subject.namespace)).get("status", {})
        seen = status.get("observedGeneration") == created["metadata"]["generation"]
        return bool(seen and status.get("disruptionsAllowed") == allowed)

    await subject.eventually(known, f"budget {name} allows {allowed}")


async def _evict(subject: Subject, pod: dict[str, Any]) -> None:
    metadata = pod["metadata"]
    await subject.client.evict(metadata["name"], namespace=subject.namespace, uid=metadata["uid"])


async def test_a_pod_is_evicted(subject: Subject) -> None:
    """Without a budget it is deleted, and the answer is 201."""
    pod = await subject.running_pod("one")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "one", "namespace": subject.namespace},
        "deleteOptions": {"preconditions": {"uid": pod["metadata"]["uid"]}},
    }
    answer = await subject.ask("POST", PODS, "one", "eviction", body=body)
    assert answer.status == 201
    assert not await subject.exists(PODS, "one")


async def test_evicting_what_is_not_there(subject: Subject) -> None:
    """An absent pod is 404."""
    with pytest.raises(NotFound):
        await subject.client.evict("absent", namespace=subject.namespace, uid=STRANGER)


async def test_evicting_the_one_that_is_meant(subject: Subject) -> None:
    """A pod of the same name with another UID is 409 and stays."""
    await subject.running_pod("one")
    with pytest.raises(PreconditionFailed) as caught:
        await subject.client.evict("one", namespace=subject.namespace, uid=STRANGER)
    assert caught.value.code == 409
    assert await subject.exists(PODS, "one")


async def test_a_budget_allows_so_many(subject: Subject) -> None:
    """The first goes, the second is 429 with a cause that tells it from a server that is overloaded."""
    pods = [await subject.running_pod(name, labels={"app": "db"}) for name in ("one", "two")]
    await _budget(subject, "db", {"app": "db"}, 1, minAvailable=1)
    await _evict(subject, pods[0])
    with pytest.raises(BudgetRefused) as caught:
        await _evict(subject, pods[1])
    assert caught.value.code == 429
    assert caught.value.reason == "TooManyRequests"
    assert caught.value.causes == ("DisruptionBudget",)
    assert await subject.exists(PODS, "two")


async def test_of_many_at_once_a_budget_allows_so_many(subject: Subject) -> None:
    """Evictions that are asked for together do not overrun the budget."""
    pods = [await subject.running_pod(f"p{index}", labels={"app": "db"}) for index in range(5)]
    await _budget(subject, "db", {"app": "db"}, 2, minAvailable=3)
    answers = await asyncio.gather(*(_evict(subject, pod) for pod in pods), return_exceptions=True)
    assert [answer for answer in answers if answer is not None and not isinstance(answer, BudgetRefused)] == []
    assert sum(answer is None for answer in answers) == 2


async def test_a_budget_over_some_pods_of_a_set(subject: Subject) -> None:
    """`maxUnavailable: 0` over a label that some pods of a set carry refuses those, again and again, and no others."""
    node = await subject.make_node()
    template = {
        "metadata": {"labels": {"app": "work"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    spec = {
        "replicas": 3,
        "serviceName": "work",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "work"}},
        "template": template,
    }
    await subject.client.create(
        STATEFUL_SETS, {"metadata": {"name": "work"}, "spec": spec}, namespace=subject.namespace
    )

    async def ready() -> bool:
        status = (await subject.client.get(STATEFUL_SETS, "work", namespace=subject.namespace)).get("status", {})
        return bool(status.get("readyReplicas") == 3)

    await subject.eventually(ready, "three pods are Ready")
    busy = await subject.client.patch_merge(
        PODS, "work-1", {"metadata": {"labels": {"ebbtide/busy": "true"}}}, namespace=subject.namespace
    )
    await _budget(subject, "busy", {"ebbtide/busy": "true"}, 0, maxUnavailable=0)
    idle = await subject.client.get(PODS, "work-0", namespace=subject.namespace)
    for _ in range(2):
        with pytest.raises(BudgetRefused):
            await _evict(subject, busy)
    await _evict(subject, idle)
    still = await subject.client.get(PODS, "work-1", namespace=subject.namespace)
    assert still["metadata"]["uid"] == busy["metadata"]["uid"]


async def test_two_budgets_over_one_pod(subject: Subject) -> None:
    """A pod under more than one budget cannot be evicted at all: 500, which no waiting helps."""
    pod = await subject.running_pod("one", labels={"app": "db"})
    for name in ("a", "b"):
        await _budget(subject, name, {"app": "db"}, 1, minAvailable=0)
    with pytest.raises(Misconfigured) as caught:
        await _evict(subject, pod)
    assert caught.value.code == 500


async def test_a_pod_that_is_already_going(subject: Subject) -> None:
    """Evicting a terminating pod is accepted, budget or not."""
    pod = await subject.running_pod("one", labels={"app": "db"}, finalizers=["tests.ebbtide/hold"])
    await _budget(subject, "db", {"app": "db"}, 0, minAvailable=1)
    await subject.client.delete(PODS, "one", namespace=subject.namespace)
    await _evict(subject, pod)
    await subject.client.patch_merge(PODS, "one", {"metadata": {"finalizers": None}}, namespace=subject.namespace)


async def test_a_pod_that_never_ran(subject: Subject) -> None:
    """A Pending pod does not count for a budget and is evicted."""
    await subject.running_pod("ready", labels={"app": "db"})
    pending = await subject.pod("pending", labels={"app": "db"})
    await _budget(subject, "db", {"app": "db"}, 0, minAvailable=1)
    await _evict(subject, pending)
    assert not await subject.exists(PODS, "pending")


async def test_an_unready_pod_is_protected_when_too_few_are_ready(subject: Subject) -> None:
    """Running, not Ready, and the budget not met: 429, as `unhealthyPodEvictionPolicy` is by default."""
    pod = await subject.running_pod("one", labels={"app": "db"})
    await _budget(subject, "db", {"app": "db"}, 0, minAvailable=1)
    status = {"conditions": [{"type": "Ready", "status": "False"}]}
    await subject.client.patch_merge(PODS, "one", {"status": status}, namespace=subject.namespace, subresource="status")

    async def noticed() -> bool:
        budget = await subject.client.get(PDBS, "db", namespace=subject.namespace)
        return bool(budget["status"]["currentHealthy"] == 0)

    await subject.eventually(noticed, "the budget counts no healthy pod")
    with pytest.raises(BudgetRefused):
        await _evict(subject, pod)
