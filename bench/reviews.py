"""Reviews of pods of given sizes, and whether an answer does what it has to do.

The pod is one of a dedicated pool that says its node group by its label alone: it is pinned (node selector,
toleration) and kept out of a blocked zone (node affinity, annotation).
"""

import base64
from copy import deepcopy
from typing import Any

import jsonpatch
import orjson

from ebbtide import vocabulary
from tests.webhook.builders import review

Object = dict[str, Any]

GROUP = "load-data"
BLOCKED = "eu-central-1a"
# The smallest pod is about as large.
SMALL = 2000
_CONTAINERS = 3
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def unlike(size: int, count: int) -> list[bytes]:
    """As many, of which no two have all in common that decides, although what decides is the same in the end."""
    return [body(size, f"Owner{number}") for number in range(count)]


def body(size: int, owner: str = "") -> bytes:
    """A review of about that many bytes: what it is filled with is environment variables, as in real ones.

    With `owner` the pod has one of that kind.
    """
    raw = pod()
    if owner:
        reference = {"apiVersion": "bench.ebbtide/v1", "kind": owner, "name": "o", "uid": "u", "controller": True}
        raw["metadata"]["ownerReferences"] = [reference]
    lacking, number = size - len(orjson.dumps(review(raw))), 0
    while lacking > 0:
        variable = _variable(number, lacking)
        raw["spec"]["containers"][number % _CONTAINERS]["env"].append(variable)
        lacking -= len(orjson.dumps(variable)) + 1
        number += 1
    return orjson.dumps(review(raw))


def pod() -> Object:
    """The smallest of them, as the API server sends it to a webhook."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "load-data-7f9c-",
            "namespace": "default",
            "labels": {vocabulary.POOL_LABEL: "dedicated", vocabulary.NODE_GROUP_PIN_LABEL: GROUP, "app": "load-data"},
            "annotations": {"prometheus.io/scrape": "true"},
        },
        "spec": {
            "containers": [_container(number) for number in range(_CONTAINERS)],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "load-data",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            "priority": 0,
            "enableServiceLinks": True,
        },
        "status": {},
    }


def changes(sent: bytes, answer: bytes) -> Object:
    """What an answer makes of the pod, as far as the mutation goes."""
    raw, response = orjson.loads(sent)["request"]["object"], orjson.loads(answer)["response"]
    assert response["allowed"], answer
    after = jsonpatch.apply_patch(deepcopy(raw), orjson.loads(base64.b64decode(response.get("patch") or "W10=")))
    metadata, spec = after["metadata"], after["spec"]
    keys = ("nodeSelector", "tolerations", "affinity")
    return {"annotations": metadata["annotations"], **{key: spec.get(key) for key in keys}}


def wanted() -> Object:
    """What every answer has to make of it."""
    group, zone = vocabulary.NODE_GROUP_LABEL, vocabulary.ZONE_LABEL
    term = {"matchExpressions": [{"key": zone, "operator": "NotIn", "values": [BLOCKED]}]}
    toleration = {"key": group, "operator": "Equal", "value": GROUP, "effect": "NoSchedule"}
    return {
        "annotations": {**pod()["metadata"]["annotations"], vocabulary.BLOCKED_ZONES_ANNOTATION: BLOCKED},
        "nodeSelector": {group: GROUP},
        "tolerations": [*pod()["spec"]["tolerations"], toleration],
        "affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}},
    }


def _container(number: int) -> Object:
    return {
        "name": f"worker-{number}",
        "image": f"registry.example/load-data/worker:1.{number}",
        "env": [],
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


def _variable(number: int, length: int) -> Object:
    name = f"LOAD_DATA_SETTING_{number}"
    return {"name": name, "value": f"value-{number}-".ljust(min(64, max(10, length - len(name) - 25)), "x")}
