"""Which fields of an object the projections of `ebbtide.model` read: the rest of a watch event is not even parsed.

A node weighs 15 KB, of which the images, the capacity and who manages which field are most; skipping them takes a
quarter of the time that reading them does. What a shape does not name reads as absent, so a projection and its shape
change together; `tests/ebbtide/test_shapes.py` holds them to that.
"""

from typing import Any, TypedDict

Objects = list[dict[str, Any]]
Words = dict[str, str]


class Metadata(TypedDict, total=False):
    """Of every object; the end of a streamed list is told by an annotation."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str | None
    deletionTimestamp: str | None
    labels: Words | None
    annotations: Words | None
    ownerReferences: Objects | None


class Condition(TypedDict, total=False):
    """One entry of `status.conditions`, without its words."""

    type: str
    status: str
    lastTransitionTime: str | None


class NodeSpec(TypedDict, total=False):
    """`spec` of a Node."""

    taints: Objects | None
    unschedulable: bool | None
    providerID: str | None


class NodeStatus(TypedDict, total=False):
    """`status` of a Node."""

    conditions: list[Condition] | None


class Node(TypedDict, total=False):
    """Read by `node_facts`."""

    metadata: Metadata
    spec: NodeSpec | None
    status: NodeStatus | None
