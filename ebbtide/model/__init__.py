"""Frozen facts read from raw JSON objects.

A store keeps one of these small values per object instead of the object (a Node weighs 15 KB and more; `NodeFacts`
a few hundred bytes). `facts` are the values, `reading` makes them, `times` knows the API's forms of time.
"""

from ebbtide.model.facts import (
    Cell,
    CellLabels,
    ClaimFacts,
    NamespaceFacts,
    NodeFacts,
    Owner,
    PodFacts,
    Taint,
    Toleration,
    VolumeFacts,
)
from ebbtide.model.reading import (
    claim_facts,
    namespace_facts,
    node_facts,
    pod_facts,
    read_owner,
    read_toleration,
    volume_facts,
)
from ebbtide.model.times import format_micro_time, format_time, parse_time

__all__ = [
    "Cell",
    "CellLabels",
    "ClaimFacts",
    "NamespaceFacts",
    "NodeFacts",
    "Owner",
    "PodFacts",
    "Taint",
    "Toleration",
    "VolumeFacts",
    "claim_facts",
    "format_micro_time",
    "format_time",
    "namespace_facts",
    "node_facts",
    "parse_time",
    "pod_facts",
    "read_owner",
    "read_toleration",
    "volume_facts",
]
