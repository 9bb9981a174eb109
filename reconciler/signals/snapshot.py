"""Which node is which instance, kept up to date with the store of nodes."""

from collections import defaultdict
from typing import Self

from ebbtide.kube.store import Store
from ebbtide.model import NodeFacts


class Instances:
    """Node by instance id. Costs one entry per node and nothing per message."""

    def __init__(self, nodes: Store[NodeFacts]) -> None:
        self._nodes = nodes
        self._names: defaultdict[str, set[str]] = defaultdict(set)

    @classmethod
    def following(cls, nodes: Store[NodeFacts]) -> Self:
        """Knows the nodes that are there, and follows them from now on."""
        found = cls(nodes)
        for node in nodes.values():
            found.changed(None, node)
        nodes.subscribe(found.changed)
        return found

    def changed(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        """A node has come, changed or gone."""
        if old is not None and old.instance and (new is None or new.instance != old.instance):
            names = self._names[old.instance]
            names.discard(old.name)
            if not names:
                del self._names[old.instance]
        if new is not None and new.instance:
            self._names[new.instance].add(new.name)

    def node(self, instance: str) -> NodeFacts | None:
        """The newest node of that instance, which may have been registered under another name before."""
        found = (self._nodes.get(name) for name in self._names.get(instance, ()))
        return max((node for node in found if node is not None), key=lambda node: node.created, default=None)
