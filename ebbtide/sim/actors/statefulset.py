"""The StatefulSet controller as a pure function: which pods and claims to make, which pod to remove next.

Follows pkg/controller/statefulset: ordinals one after the other unless `Parallel`, a pod is made anew only when its
predecessor of the same name is gone, a new template rolls from the highest ordinal down, one pod at a time. Old
templates are not kept: a pod that is made anew always gets the present one, also below a `partition`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from ebbtide.sim.actors.replication import (
    Plan,
    is_healthy,
    is_terminating,
    owner_reference,
    pod_from,
    replicas_of,
    template_hash,
)
from ebbtide.sim.actors.rooms import finished
from ebbtide.sim.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, Kind
from ebbtide.sim.stored import Object

Raw = Mapping[str, Any]

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
REVISION_LABEL: Final = "controller-revision-hash"


def plan(stateful_set: Raw, pods: Iterable[Raw], claims: Iterable[Raw]) -> Plan:
    """What to do next. `pods` are those that the set controls, `claims` all of its namespace."""
    by_ordinal = {ordinal_of(pod): pod for pod in pods}
    known = {claim["metadata"]["name"]: claim for claim in claims}
    status = status_of(stateful_set, tuple(by_ordinal.values()))
    if is_terminating(stateful_set):
        return Plan(status=status)
    create = tuple(_missing(stateful_set, by_ordinal, known))
    delete = tuple((PODS, pod) for pod in _to_remove(stateful_set, by_ordinal))
    update = tuple(_claims_to_release(stateful_set, by_ordinal, known))
    return Plan(status=status, create=create, update=update, delete=delete)


def ordinal_of(pod: Raw) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def revision_of(stateful_set: Raw) -> str:
    return f"{stateful_set['metadata']['name']}-{template_hash(stateful_set['spec']['template'])}"


def wanted_ordinals(stateful_set: Raw) -> range:
    start = int((stateful_set["spec"].get("ordinals") or {}).get("start") or 0)
    return range(start, start + replicas_of(stateful_set))


def pod_of(stateful_set: Raw, ordinal: int) -> Object:
    """The pod with that ordinal: stable name, its own claims, identity labels."""
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    labels = {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal), REVISION_LABEL: revision_of(stateful_set)}
    pod = pod_from(stateful_set["spec"]["template"], STATEFUL_SETS, stateful_set, labels)
    pod["metadata"]["name"] = name
    pod["spec"] |= {"hostname": name, "subdomain": stateful_set["spec"].get("serviceName") or ""}
    templated = [
        {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name(template, name)}}
        for template in _claim_templates(stateful_set)
    ]
    names = {volume["name"] for volume in templated}
    own = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in names]
    if templated:
        pod["spec"]["volumes"] = [*templated, *own]
    return pod


def claim_name(template: Raw, pod: str) -> str:
    return f"{template['metadata']['name']}-{pod}"


def status_of(stateful_set: Raw, pods: tuple[Raw, ...]) -> Object:
    """`status` as the controller writes it: `currentRevision` moves when every pod has the new one."""
    revision = revision_of(stateful_set)
    before = stateful_set.get("status") or {}
    ready = sum(is_healthy(pod) for pod in pods)
    updated = sum(_has_revision(pod, revision) and not is_terminating(pod) for pod in pods)
    rolled_out = updated == len(pods) == ready
    current = revision if rolled_out else before.get("currentRevision") or revision
    return {
        "observedGeneration": stateful_set["metadata"].get("generation", 1),
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "currentReplicas": sum(_has_revision(pod, current) and not is_terminating(pod) for pod in pods),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": 0,
    }


def _missing(stateful_set: Raw, pods: Mapping[int, Raw], claims: Mapping[str, Raw]) -> Iterator[tuple[Kind, Object]]:
    """Pods that are to be made now, each after the claims that it lacks."""
    for ordinal in wanted_ordinals(stateful_set):
        pod = pods.get(ordinal)
        if pod is None:
            body = pod_of(stateful_set, ordinal)
            names = [claim_name(template, body["metadata"]["name"]) for template in _claim_templates(stateful_set)]
            if not any(name in claims and is_terminating(claims[name]) for name in names):
                yield from _claims_of(stateful_set, body["metadata"]["name"], claims)
                yield PODS, body
        if _ordered(stateful_set) and (pod is None or not is_healthy(pod)):
            return


def _claims_of(stateful_set: Raw, pod: str, claims: Mapping[str, Raw]) -> Iterator[tuple[Kind, Object]]:
    for template in _claim_templates(stateful_set):
        name = claim_name(template, pod)
        if name in claims:
            continue
        claim: Object = orjson.loads(orjson.dumps(template))
        selected = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
        labels = {**(claim["metadata"].get("labels") or {}), **selected}
        claim["metadata"] |= {"name": name, "namespace": stateful_set["metadata"]["namespace"], "labels": labels}
        if _retention(stateful_set).get("whenDeleted") == "Delete":
            claim["metadata"]["ownerReferences"] = [owner_reference(STATEFUL_SETS, stateful_set, controller=False)]
        yield PERSISTENT_VOLUME_CLAIMS, claim


def _to_remove(stateful_set: Raw, pods: Mapping[int, Raw]) -> Iterator[Raw]:
    """Finished pods always; else what is too many, highest first; else the next pod of an old revision."""
    wanted = wanted_ordinals(stateful_set)
    ended = [pod for ordinal, pod in pods.items() if ordinal in wanted and finished(pod) and not is_terminating(pod)]
    condemned = [pods[ordinal] for ordinal in sorted(pods, reverse=True) if ordinal not in wanted]
    if ended:
        yield from ended
    elif condemned:
        going = condemned[:1] if _ordered(stateful_set) else condemned
        settled = all(is_healthy(pods[ordinal]) for ordinal in wanted if ordinal in pods)
        if settled or not _ordered(stateful_set):
            yield from (pod for pod in going if not is_terminating(pod))
    elif all(ordinal in pods for ordinal in wanted):
        yield from _next_to_renew(stateful_set, pods)


def _next_to_renew(stateful_set: Raw, pods: Mapping[int, Raw]) -> Iterator[Raw]:
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    for ordinal in sorted(pods, reverse=True):
        pod = pods[ordinal]
        if ordinal < partition:
            return
        if not _has_revision(pod, revision_of(stateful_set)) and not is_terminating(pod):
            yield pod
            return
        if not is_healthy(pod):
            return


def _claims_to_release(
    stateful_set: Raw, pods: Mapping[int, Raw], claims: Mapping[str, Raw]
) -> Iterator[tuple[Kind, Object]]:
    """With `whenScaled: Delete` a claim belongs to its condemned pod, and goes with it."""
    if _retention(stateful_set).get("whenScaled") != "Delete":
        return
    condemned = [pod for ordinal, pod in pods.items() if ordinal not in wanted_ordinals(stateful_set)]
    for pod in condemned:
        for template in _claim_templates(stateful_set):
            claim = claims.get(claim_name(template, pod["metadata"]["name"]))
            reference = owner_reference(PODS, pod, controller=False)
            if claim is not None and reference not in (claim["metadata"].get("ownerReferences") or ()):
                owners = [reference]
                yield PERSISTENT_VOLUME_CLAIMS, {**claim, "metadata": {**claim["metadata"], "ownerReferences": owners}}


def _claim_templates(stateful_set: Raw) -> tuple[Raw, ...]:
    return tuple(stateful_set["spec"].get("volumeClaimTemplates") or ())


def _retention(stateful_set: Raw) -> Raw:
    return stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}


def _ordered(stateful_set: Raw) -> bool:
    return bool(stateful_set["spec"].get("podManagementPolicy") != "Parallel")


def _has_revision(pod: Raw, revision: str) -> bool:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return labels.get(REVISION_LABEL) == revision
