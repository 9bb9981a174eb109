"""Reviews and the knowledge they are decided by, with defaults, so that a case says only what is special about it."""

import base64
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jsonpatch
import orjson

from ebbtide.exclusion.decide import Around
from ebbtide.exclusion.zones import GroupZones
from tests.ebbtide.exclusion.builders import DEFAULT_NODES, blocked_zones
from webhook.decide import Decision, Rules, decide
from webhook.patch import POD, TEMPLATE, operations
from webhook.review import Kind, read

Raw = dict[str, Any]
SETS: Mapping[str, str] = {"group": "apps", "version": "v1", "kind": "StatefulSet"}
PODS: Mapping[str, str] = {"group": "", "version": "v1", "kind": "Pod"}


@dataclass(frozen=True)
class Cluster:
    """What is known: zones in the words of `raw_nodes`, guarded namespaces or all of them, the zones of volumes."""

    nodes: str = DEFAULT_NODES
    guarded: bool = False
    volumes: Iterable[Iterable[str]] = ()
    zones: Mapping[str, GroupZones] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "zones", blocked_zones(self.nodes).groups)

    def around(self, _namespace: str, _claims: Iterable[str]) -> Around:
        return Around(self.guarded, tuple(frozenset(zones) for zones in self.volumes))


def review(raw: Raw | None, old: Raw | None = None, **request: Any) -> Raw:
    """A review of an object's creation, or with `old` of its update; `request` overrides fields."""
    kind = SETS if raw is not None and raw.get("kind") == "StatefulSet" else PODS
    body: Raw = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": dict(kind),
        "resource": {"group": kind["group"], "version": "v1", "resource": "pods"},
        "name": "",
        "namespace": "default",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "someone"},
        "object": raw,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **request,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": body}


def patched(raw: Raw, ops: Iterable[Mapping[str, Any]]) -> Raw:
    """The object after an independent implementation of RFC 6902 has applied the operations."""
    result: Raw = jsonpatch.apply_patch(deepcopy(raw), deepcopy(list(ops)))
    return result


def admitted(raw: Raw, old: Raw | None, cluster: Cluster, rules: Rules) -> tuple[Raw, Decision, list[Raw]]:
    """The object as it is stored, what was decided, and the operations."""
    request = read(orjson.dumps(review(raw, old)))
    decision = decide(request, cluster, rules)
    assert request.object is not None
    where = TEMPLATE if request.kind is Kind.STATEFUL_SET else POD
    ops = operations(request.object, decision, rules.labels, where)
    return patched(raw, ops), decision, ops


def operations_of(response: Mapping[str, Any]) -> list[Raw]:
    """The patch in the response of an answer; an empty one is never sent."""
    if "patch" not in response:
        assert "patchType" not in response
        return []
    assert response["patchType"] == "JSONPatch"
    found: list[Raw] = orjson.loads(base64.b64decode(response["patch"]))
    assert found
    return found
