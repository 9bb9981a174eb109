"""What a world is made of when the curtain rises."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.sim.actors.templates import NodeGroup


@dataclass(frozen=True, slots=True)
class Scenery:
    """`groups` are what the autoscaler may grow, `objects` what is there, `namespace` where its pods are.

    `opening` says which applications (label `app` of their pods) stand on which node.
    """

    namespace: str
    groups: tuple[NodeGroup, ...]
    objects: Callable[[], Iterable[dict[str, Any]]]
    opening: Mapping[str, tuple[str, ...]]
