"""The words that the product itself puts on objects of others: what is looked for, and what goes."""

from collections.abc import Mapping
from typing import Final

from ebbtide import vocabulary
from ebbtide.kube.resources import NODES, PODS, Resource

# A new word that the product puts on objects of others joins here; a new kind of object of its own joins in `decide`.
ANNOTATIONS: Final[Mapping[Resource, frozenset[str]]] = {
    NODES: frozenset(
        {
            vocabulary.FIRST_SEEN_ANNOTATION,
            vocabulary.REBALANCE_NOTICE_ANNOTATION,
            vocabulary.INTERRUPTION_NOTICE_ANNOTATION,
        }
    ),
    PODS: frozenset({vocabulary.BLOCKED_ZONES_ANNOTATION}),
}
LABELS: Final[Mapping[Resource, frozenset[str]]] = {PODS: frozenset({vocabulary.BUSY_LABEL})}
MARKS: Final = frozenset[str]().union(*ANNOTATIONS.values(), *LABELS.values())
