"""What decides about a pod besides the state of zones, read from the raw object.

The same reading serves admission, where a pod has no UID, perhaps no name and no namespace of its own yet, and
re-admission, which keeps the result for every pod that waits.
"""

from collections.abc import Mapping
from sys import intern
from typing import Any, Final

import msgspec

from ebbtide import vocabulary
from ebbtide.exclusion.affinity import NodeChoice, node_choice
from ebbtide.exclusion.fields import mapping, sequence, text
from ebbtide.model import CellLabels, Owner, Toleration, read_owner, read_toleration

Raw = Mapping[str, Any]


class PodTraits(msgspec.Struct, frozen=True):
    """A pod as far as zones are concerned.

    `pool` is the value of its pool label, None without; `guard` that of its guard label, "" without. `pinned_group` is
    what its node group label says. `blocked_zones` is our annotation, as the zones that it names.
    """

    namespace: str
    owner: Owner | None
    pool: str | None
    guard: str
    pinned_group: str
    bound: bool
    static: bool
    tolerations: tuple[Toleration, ...]
    claims: tuple[str, ...]
    choice: NodeChoice
    blocked_zones: frozenset[str]

    @property
    def of_daemon_set(self) -> bool:
        return self.owner is not None and self.owner.kind == "DaemonSet"

    def groups(self) -> frozenset[str]:
        """The node groups that the pod names: by selector, else by affinity, else by label; empty if by nothing."""
        return self.choice.groups() or (frozenset((self.pinned_group,)) if self.pinned_group else _NO_GROUPS)


def pod_traits(raw: Raw, labels: CellLabels, namespace: str = "") -> PodTraits:
    """Reads a raw pod; `namespace` is that of the request, for a pod that does not say its own.

    Raises TypeError for a field of a wrong type.
    """
    metadata, spec = mapping(raw, "metadata"), mapping(raw, "spec")
    own, annotations = mapping(metadata, "labels"), mapping(metadata, "annotations")
    owner, owned_by_node = read_owner(metadata) if sequence(metadata, "ownerReferences") else (None, False)
    return PodTraits(
        namespace=intern(text(metadata, "namespace") or namespace),
        owner=owner,
        pool=intern(text(own, vocabulary.POOL_LABEL)) if vocabulary.POOL_LABEL in own else None,
        guard=intern(text(own, vocabulary.GUARD_LABEL)),
        pinned_group=intern(text(own, vocabulary.NODE_GROUP_PIN_LABEL)),
        bound=bool(spec.get("nodeName")),
        static=owned_by_node or vocabulary.MIRROR_POD_ANNOTATION in annotations,
        tolerations=tuple(map(read_toleration, sequence(spec, "tolerations"))),
        claims=tuple(claims_of(spec)),
        choice=node_choice(spec, labels),
        blocked_zones=zones_of(text(annotations, vocabulary.BLOCKED_ZONES_ANNOTATION)),
    )


_NO_ZONES: Final[frozenset[str]] = frozenset()
_NO_GROUPS: Final[frozenset[str]] = frozenset()


def zones_of(annotation: str) -> frozenset[str]:
    """The zones that the value of our annotation names."""
    return frozenset([zone for part in annotation.split(",") if (zone := part.strip())]) if annotation else _NO_ZONES


def claims_of(spec: Raw) -> list[str]:
    """The names of the claims that a pod's `spec` mounts. Raises TypeError for a field of a wrong type."""
    found = []
    for volume in sequence(spec, "volumes"):
        name = text(mapping(volume, "persistentVolumeClaim"), "claimName")
        if name:
            found.append(name)
    return found
