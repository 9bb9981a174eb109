"""Template and task → the objects of a dedicated worker. Pure."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

from ebbtide import vocabulary
from ebbtide.kube.resources import STATEFUL_SETS
from ebbtide.model import CellLabels
from reconciler.scaler.contract import Arrival
from reconciler.scaler.objects import Object, headless_service, labels
from reconciler.scaler.pods import WorkerSet
from reconciler.scaler.size import Size
from reconciler.scaler.template import Template, Wear, claim_templates, pod_template

# Belong to the template's own life, or are replaced as a whole.
_NOT_COPIED: Final = frozenset(
    {
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
        "replicas",
        "selector",
        "serviceName",
        "template",
        "updateStrategy",
        "volumeClaimTemplates",
    }
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be made: the worker `name` for a task, of a size. `component` is what all workers are called."""

    name: str
    component: str
    arrival: Arrival
    size: Size


def stateful_set(template: Template, plan: Plan, cells: CellLabels) -> Object:
    """The set of one pod. Its volumes go with it; nothing restarts the pod but its own end."""
    pod_labels = {**labels(plan.name, plan.component, vocabulary.POOL_DEDICATED), vocabulary.BUSY_LABEL: "true"}
    wear = Wear(pod_labels, {}, str(plan.arrival.task))
    claims = {vocabulary.POOL_LABEL: vocabulary.POOL_DEDICATED, vocabulary.WORKER_LABEL: plan.name}
    kept = {key: deepcopy(value) for key, value in template.spec.items() if key not in _NOT_COPIED}
    return {
        "apiVersion": STATEFUL_SETS.api_version,
        "kind": STATEFUL_SETS.kind,
        "metadata": {
            "name": plan.name,
            "namespace": template.namespace,
            "labels": labels(plan.name, plan.component, vocabulary.POOL_DEDICATED),
            "annotations": _annotations(plan.arrival),
        },
        "spec": {
            **kept,
            "replicas": 1,
            "serviceName": plan.name,
            "selector": {"matchLabels": {vocabulary.SERVICE_LABEL: plan.name}},
            "updateStrategy": {"type": "OnDelete"},
            "template": pod_template(template, wear, plan.size, cells),
            "volumeClaimTemplates": claim_templates(template, claims, plan.size),
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
        },
    }


def service(owner: WorkerSet, component: str, port: int) -> Object:
    """The headless Service of a set that exists; it goes with the set."""
    reference = {"apiVersion": STATEFUL_SETS.api_version, "kind": STATEFUL_SETS.kind, "name": owner.name}
    metadata = {
        "name": owner.service,
        "namespace": owner.namespace,
        "labels": labels(owner.name, component, vocabulary.POOL_DEDICATED),
        "ownerReferences": [{**reference, "uid": owner.uid}],
    }
    return headless_service(metadata, owner.name, port)


def _annotations(arrival: Arrival) -> Mapping[str, str]:
    return {
        vocabulary.TASK_ID_ANNOTATION: str(arrival.task),
        vocabulary.DATA_SIZE_ANNOTATION: str(arrival.size),
        vocabulary.CLUSTER_ID_ANNOTATION: str(arrival.cluster),
    }
