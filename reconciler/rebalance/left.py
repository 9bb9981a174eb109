"""Nodes that are emptied no longer, while pods that were asked to go from them are still there.

Their signal has vanished, or they have gone themselves. These pods count as under way until they have gone, so they are
watched until then; only where `max-evictions-in-flight` makes it matter.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from ebbtide.kube.store import Store
from ebbtide.model import PodFacts


@dataclass(slots=True, eq=False)
class Left:
    """One node that was left: its group, the watch on its pods, and the UIDs of those that were asked to go."""

    group: str
    pods: Store[PodFacts]
    watch: asyncio.Task[None]
    going: set[str]

    def still(self) -> set[str]:
        """Those of them that are still there."""
        return self.going & {pod.uid for pod in self.pods.values()}


class LeftNodes:
    """All of them."""

    def __init__(self) -> None:
        self._nodes: list[Left] = []

    def add(self, node: Left) -> None:
        """From now on its pods count here."""
        self._nodes.append(node)

    def refused(self, uid: str) -> None:
        """A pod was asked to go, and stays."""
        for node in self._nodes:
            node.going.discard(uid)

    def sweep(self) -> None:
        """Ends the watches of pods that have gone."""
        for node in self._nodes:
            if not node.still():
                node.watch.cancel()
        self._nodes = [node for node in self._nodes if node.still()]

    def going(self) -> Mapping[str, str]:
        """By UID of a pod that is still there, its node's group."""
        return {uid: node.group for node in self._nodes for uid in node.still()}

    def clear(self) -> None:
        """Nothing is watched any more."""
        self._nodes.clear()
