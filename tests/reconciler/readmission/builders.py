"""Waiting pods and owners with defaults, so that a case says only what is special about it.

A pod is guarded, of a ReplicaSet, selects group g and waits without any exclusion; zone a of the group is blocked.
"""

from dataclasses import replace
from typing import Any

import msgspec

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Exclusion
from ebbtide.model import Owner
from reconciler.readmission.decide import History, OwnerFacts, PendingPod
from reconciler.readmission.snapshot import pending_pod
from tests.ebbtide.exclusion.builders import LABELS, Raw, Z, not_in, pod, term

BLOCKED = Exclusion(("a",), (Z,))
OPEN = Exclusion()


def controller(kind: str = "ReplicaSet") -> Raw:
    return {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": f"uid-{kind}", "controller": True}


def raw_pod(name: str = "web-1", *, status: Raw | None = None, owner: Raw | None = None, **special: Any) -> Raw:
    """A raw pod as it is stored while it waits."""
    raw = pod(owner=owner if owner is not None else controller(), **special)
    raw["metadata"] |= {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    raw["status"] = {"phase": "Pending"} if status is None else status
    return raw


def waiting(name: str = "web-1", **special: Any) -> PendingPod:
    return pending_pod(raw_pod(name, **special), LABELS)


def excluding(name: str = "web-1", *zones: str) -> PendingPod:
    """A pod that admission keeps out of these zones."""
    annotations = {vocabulary.BLOCKED_ZONES_ANNOTATION: ",".join(zones)}
    return waiting(name, annotations=annotations, terms=[term(not_in(*zones))])


def without_owner(name: str = "web-1") -> PendingPod:
    plain = waiting(name)
    return replace(plain, traits=msgspec.structs.replace(plain.traits, owner=None))


def owner_facts(
    *pods: PendingPod, exclusion: Exclusion = BLOCKED, history: History | None = None, **special: Any
) -> OwnerFacts:
    """An owner of these pods, for each of which the same is decided."""
    return OwnerFacts(tuple((pod, exclusion) for pod in pods), history=history or History(), **special)


WEB = Owner("ReplicaSet", "web", "uid-ReplicaSet")
