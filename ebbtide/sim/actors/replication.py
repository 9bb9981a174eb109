"""What the workload controllers share: whose pod is whose, pods from templates, and what a controller wants done."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from ebbtide.sim.actors.kubelet import is_ready
from ebbtide.sim.actors.rooms import finished
from ebbtide.sim.kinds import Kind
from ebbtide.sim.storage import NAME_LETTERS
from ebbtide.sim.stored import Object

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one controller wants written for one of its objects.

    `create` and `update` are whole objects; `delete` names objects as they were seen, so that only those are deleted;
    `status` is the object's new status.
    """

    status: Mapping[str, Any] = field(default_factory=dict)
    create: tuple[tuple[Kind, Object], ...] = ()
    update: tuple[tuple[Kind, Object], ...] = ()
    delete: tuple[tuple[Kind, Raw], ...] = ()


def owned(things: Iterable[Raw], owner: Raw) -> tuple[Raw, ...]:
    """Those that the owner controls, by UID."""
    uid = owner["metadata"]["uid"]
    return tuple(thing for thing in things if controller_uid(thing) == uid)


def controller_uid(thing: Raw) -> str:
    """The UID of the controlling owner, empty without one."""
    for reference in thing["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


def owner_reference(kind: Kind, owner: Raw, *, controller: bool = True) -> Object:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def template_hash(template: Raw) -> str:
    """Ten letters that stand for a pod template; equal templates, equal letters."""
    digest = sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).digest()
    return "".join(NAME_LETTERS[byte % len(NAME_LETTERS)] for byte in digest[:10])


def pod_from(template: Raw, kind: Kind, owner: Raw, labels: Mapping[str, str]) -> Object:
    """A pod of the template, without a name, controlled by the owner."""
    metadata: Object = orjson.loads(orjson.dumps(template.get("metadata") or {}))
    metadata["namespace"] = owner["metadata"]["namespace"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["ownerReferences"] = [owner_reference(kind, owner)]
    return {"metadata": metadata, "spec": orjson.loads(orjson.dumps(template["spec"]))}


def is_terminating(thing: Raw) -> bool:
    return "deletionTimestamp" in thing["metadata"]


def is_active(pod: Raw) -> bool:
    """Whether a controller counts the pod as one of its replicas."""
    return not finished(pod) and not is_terminating(pod)


def is_healthy(pod: Raw) -> bool:
    """Whether the pod is Running, Ready and staying."""
    running = (pod.get("status") or {}).get("phase") == "Running"
    return running and is_ready(pod) and not is_terminating(pod)


def replicas_of(workload: Raw) -> int:
    """`spec.replicas`, by default 1."""
    replicas = workload["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)
