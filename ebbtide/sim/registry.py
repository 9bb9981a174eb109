"""Which part of an object a write may touch, and what the server fills in: the registries' strategies.

A write of the object leaves `status` alone, one of `/status` leaves `spec` alone; nothing changes UID, creation or
deletion time; the generation follows the specification.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from ebbtide.sim import defaults
from ebbtide.sim.kinds import NODES, PODS, Kind
from ebbtide.sim.refusals import NotBound
from ebbtide.sim.shape import tidy
from ebbtide.sim.stored import Object, Stored

# What a client may send but the server keeps to itself.
_SERVER_OWN: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
# The registry of nodes keeps what a kubelet registers with; all others start without a status of the client's.
_KEEPS_STATUS: Final = frozenset({NODES})
# Everything that is not metadata or status counts as specification.
_NOT_SPECIFICATION: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


def copied(body: Mapping[str, Any]) -> Object:
    """A deep copy in plain JSON types."""
    result: Object = orjson.loads(orjson.dumps(body))
    return result


def prepare_create(kind: Kind, body: Object, *, keep_status: bool) -> Object:
    """The object as it is going to be stored, without identity."""
    metadata = body["metadata"]
    for name in (*_SERVER_OWN, "managedFields", "resourceVersion"):
        metadata.pop(name, None)
    if kind.has_status and kind not in _KEEPS_STATUS and not keep_status:
        body.pop("status", None)
    body |= kind.type_meta
    prepared = tidy(body)
    defaults.fill(kind, prepared)
    if kind is NODES and not keep_status:
        defaults.taint_new_node(prepared)
    if kind.counts_generations:
        prepared["metadata"]["generation"] = 1
    return prepared


def prepare_update(before: Stored, body: Object, subresource: str) -> Object:
    """The object as it is going to be stored after this update of that subresource ("" is the object itself)."""
    metadata, old = body["metadata"], before.body
    metadata.pop("managedFields", None)
    _restore(metadata, old["metadata"], *_SERVER_OWN, "name", "namespace", "resourceVersion")
    if subresource == "status":
        status = body.get("status")
        kept = {key: value for key, value in old.items() if key != "status"}
        body = {**kept, "metadata": metadata} | ({"status": status} if status is not None else {})
        if before.kind is PODS:
            _restore(metadata, old["metadata"], "ownerReferences")
    elif subresource in {"", "finalize"} and before.kind.has_status:
        _restore(body, old, "status")
    body |= before.kind.type_meta
    prepared = tidy(body)
    defaults.fill(before.kind, prepared)
    return prepared


def count_generation(before: Stored, body: Object) -> None:
    """Raises `metadata.generation` when the specification, or the wish to delete, has changed."""
    if not before.kind.counts_generations:
        return
    deleted = "deletionTimestamp" in body["metadata"] and not before.deleting
    if deleted or _specification(before.body) != _specification(body):
        body["metadata"]["generation"] = before.body["metadata"].get("generation", 0) + 1


def other_uid(before: Stored, uid: str) -> str:
    """How the storage says that another object was meant."""
    key = "/".join(part for part in (before.kind.plural, before.namespace, before.name) if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before.uid}"
    )


def assign(pod: Object, node: str, now: str) -> None:
    """Puts the pod on the node as the binding subresource does; raises Conflict."""
    name = pod["metadata"]["name"]
    if "deletionTimestamp" in pod["metadata"]:
        raise NotBound.of(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise NotBound.of(PODS, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise NotBound.of(PODS, name, f"pod {name} has non-empty .spec.schedulingGates")
    pod["spec"]["nodeName"] = node
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [entry for entry in conditions if entry["type"] != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now})


def _specification(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in _NOT_SPECIFICATION}


def _restore(target: Object, source: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if name in source:
            target[name] = source[name]
        else:
            target.pop(name, None)
