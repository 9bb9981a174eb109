"""The ReplicaSet and the Deployment controller as pure functions.

A Deployment has one ReplicaSet per pod template, and moves replicas from the old ones to the new one within
`maxSurge` and `maxUnavailable` (pkg/controller/deployment). Old ReplicaSets stay, empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from ebbtide.sim.actors.replication import (
    Plan,
    is_active,
    is_healthy,
    is_terminating,
    owner_reference,
    pod_from,
    replicas_of,
    template_hash,
)
from ebbtide.sim.kinds import DEPLOYMENTS, PODS, REPLICA_SETS, Kind
from ebbtide.sim.stored import Object

Raw = Mapping[str, Any]

TEMPLATE_HASH_LABEL: Final = "pod-template-hash"


def plan_replica_set(replica_set: Raw, pods: Iterable[Raw]) -> Plan:
    """What to do next for a ReplicaSet; `pods` are those that it controls. A terminating pod is replaced at once."""
    active = [pod for pod in pods if is_active(pod)]
    status = _replica_set_status(replica_set, active)
    if is_terminating(replica_set):
        return Plan(status=status)
    surplus = len(active) - replicas_of(replica_set)
    create = tuple((PODS, _replica(replica_set)) for _ in range(-surplus))
    delete = tuple((PODS, pod) for pod in sorted(active, key=_worth)[: max(surplus, 0)])
    return Plan(status=status, create=create, delete=delete)


def plan_deployment(deployment: Raw, replica_sets: Iterable[Raw]) -> Plan:
    """What to do next for a Deployment; `replica_sets` are those that it controls."""
    sets = list(replica_sets)
    letters = template_hash(deployment["spec"]["template"])
    newest = next((each for each in sets if _letters_of(each) == letters), None)
    others = [each for each in sets if each is not newest]
    status = _deployment_status(deployment, newest, sets)
    if is_terminating(deployment):
        return Plan(status=status)
    if newest is None:
        replicas = _room_for_new(deployment, others)
        return Plan(status=status, create=((REPLICA_SETS, _replica_set(deployment, letters, replicas)),))
    return Plan(status=status, update=tuple(_rescaled(deployment, newest, others)))


def _rescaled(deployment: Raw, newest: Raw, others: Sequence[Raw]) -> Iterable[tuple[Kind, Object]]:
    growth = _room_for_new(deployment, [newest, *others])
    size = min(replicas_of(newest) + growth, replicas_of(deployment))
    if size != replicas_of(newest):
        yield REPLICA_SETS, _scaled(newest, size)
    yield from _shrunk(deployment, newest, others)


def _shrunk(deployment: Raw, newest: Raw, others: Sequence[Raw]) -> Iterable[tuple[Kind, Object]]:
    """The old sets as they may be now: replicas that are not available go first, the others as far as enough stay."""
    least, everything = _least_available(deployment), [newest, *others]
    unavailable = replicas_of(newest) - _available(newest)
    removable = sum(replicas_of(each) for each in everything) - least - unavailable
    spare = max(sum(_available(each) for each in everything) - least, 0)
    for each in others if removable > 0 else ():
        broken = min(max(replicas_of(each) - _available(each), 0), removable)
        sound = min(replicas_of(each) - broken, spare)
        removable, spare = removable - broken, spare - sound
        if broken + sound:
            yield REPLICA_SETS, _scaled(each, replicas_of(each) - broken - sound)


def _room_for_new(deployment: Raw, sets: Sequence[Raw]) -> int:
    """How many replicas may be added now."""
    existing = sum(replicas_of(each) for each in sets)
    if _recreates(deployment):
        old_pods = sum(int((each.get("status") or {}).get("replicas") or 0) for each in sets)
        return 0 if old_pods and existing != replicas_of(deployment) else max(replicas_of(deployment) - existing, 0)
    return max(replicas_of(deployment) + _share(deployment, "maxSurge", up=True) - existing, 0)


def _least_available(deployment: Raw) -> int:
    if _recreates(deployment):
        return 0
    surge = _share(deployment, "maxSurge", up=True)
    missing = _share(deployment, "maxUnavailable", up=False)
    return replicas_of(deployment) - (missing if missing or surge else 1)


def _share(deployment: Raw, field: str, *, up: bool) -> int:
    """`maxSurge` rounds up, `maxUnavailable` down; both are 25% by default."""
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    value = rolling.get(field, "25%")
    if isinstance(value, str):
        hundredths = int(value.rstrip("%")) * replicas_of(deployment)
        return -(-hundredths // 100) if up else hundredths // 100
    return int(value)


def _recreates(deployment: Raw) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _replica_set(deployment: Raw, letters: str, replicas: int) -> Object:
    metadata, spec = deployment["metadata"], deployment["spec"]
    template: Object = orjson.loads(orjson.dumps(spec["template"]))
    labels = {**((template.get("metadata") or {}).get("labels") or {}), TEMPLATE_HASH_LABEL: letters}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    matched = {**(spec["selector"].get("matchLabels") or {}), TEMPLATE_HASH_LABEL: letters}
    return {
        "metadata": {
            "name": f"{metadata['name']}-{letters}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
        },
        "spec": {
            "replicas": min(replicas, replicas_of(deployment)),
            "selector": {**spec["selector"], "matchLabels": matched},
            "template": template,
        },
    }


def _replica(replica_set: Raw) -> Object:
    pod = pod_from(replica_set["spec"]["template"], REPLICA_SETS, replica_set, {})
    pod["metadata"]["generateName"] = f"{replica_set['metadata']['name']}-"
    return pod


def _worth(pod: Raw) -> tuple[bool, bool, bool, str]:
    """What is removed first: without a node, not running, not ready, then the youngest."""
    running = (pod.get("status") or {}).get("phase") == "Running"
    age = "".join(chr(0x10FFFF - ord(letter)) for letter in pod["metadata"]["creationTimestamp"])
    return bool(pod["spec"].get("nodeName")), running, is_healthy(pod), age


def _replica_set_status(replica_set: Raw, active: Sequence[Raw]) -> Object:
    ready = sum(is_healthy(pod) for pod in active)
    return {
        "observedGeneration": replica_set["metadata"].get("generation", 1),
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": ready,
        "availableReplicas": ready,
    }


def _deployment_status(deployment: Raw, newest: Raw | None, sets: Sequence[Raw]) -> Object:
    available = sum(_available(each) for each in sets)
    counts = [int((each.get("status") or {}).get("replicas") or 0) for each in sets]
    updated = int(((newest or {}).get("status") or {}).get("replicas") or 0)
    return {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": sum(counts),
        "updatedReplicas": updated,
        "readyReplicas": available,
        "availableReplicas": available,
        "unavailableReplicas": max(replicas_of(deployment) - available, 0),
    }


def _available(replica_set: Raw) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas") or 0)


def _letters_of(replica_set: Raw) -> str:
    return str((replica_set["metadata"].get("labels") or {}).get(TEMPLATE_HASH_LABEL, ""))


def _scaled(replica_set: Raw, replicas: int) -> Object:
    return {**replica_set, "spec": {**replica_set["spec"], "replicas": replicas}}
