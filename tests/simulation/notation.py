"""Nodes and pods, written down as shortly as cases are told.

    nodes("a1 S(30s) P", "a2 C", "b1")

`a1`, `a2`, … stand in zone `a` of group `g`, Ready for an hour, schedulable and without taints. The words after the
name are, in the order of the taints:

    S, S(30s)   a rebalance signal without a time, and with our annotation of 30 s ago
    P           our taint
    C           cordoned
    D           being deleted, held by a finalizer
    X           any other single capital letter: somebody else's taint
    unready     not Ready
    young       Ready since this moment
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ebbtide import vocabulary
from ebbtide.model import format_time
from ebbtide.sim import objects
from ebbtide.sim.stored import Object

HASH = "rebalance-recommendation-5e1f0c"
_SIGNAL = re.compile(r"S(?:\((\d+)s\))?")
BOTH_TOLERATED = (
    {"key": vocabulary.SIGNAL_TAINT_KEY, "operator": "Exists"},
    {"key": vocabulary.PREVENT_TAINT_KEY, "operator": "Exists"},
)


def signal(value: str = HASH) -> Object:
    """The taint of aws-node-termination-handler, which says nothing of time."""
    return objects.taint(vocabulary.SIGNAL_TAINT_KEY, value)


def foreign(letter: str) -> Object:
    """Somebody else's taint."""
    return objects.taint(f"example.com/{letter}", letter, "PreferNoSchedule")


@dataclass(frozen=True, slots=True)
class Told:
    """A node as it was written down; `body` is to be created, and deleted afterwards if it is `deleting`."""

    body: Object
    deleting: bool


def told(text: str, now: float, group: str = "g") -> Told:
    """Reads one node."""
    name, *words = text.split()
    annotations: dict[str, str] = {}
    body = objects.node(name, group=group, zone=name[0], ready="unready" not in words)
    if "young" in words:
        for condition in body["status"]["conditions"]:
            condition["lastTransitionTime"] = format_time(now)
    taints = list(_taints(words, now))
    for word in words:
        match = _SIGNAL.fullmatch(word)
        if match and match[1]:
            annotations[vocabulary.FIRST_SEEN_ANNOTATION] = format_time(now - float(match[1]))
    spec: dict[str, Any] = {"taints": taints} if taints else {}
    if "C" in words:
        spec["unschedulable"] = True
    metadata: dict[str, Any] = {"annotations": annotations}
    if "D" in words:
        metadata["finalizers"] = ["example.com/hold"]
    return Told(objects.changed(body, {"metadata": metadata, "spec": spec}), "D" in words)


def _taints(words: list[str], now: float) -> Iterator[Object]:
    for word in words:
        if _SIGNAL.fullmatch(word):
            yield signal()
        elif word == "P":
            yield objects.taint(vocabulary.PREVENT_TAINT_KEY, str(int(now)))
        elif len(word) == 1 and word not in "CD":
            yield foreign(word)


def marks(node: Object) -> str:
    """The node's taints in that notation: `X S P Y`."""
    return " ".join(_letter(taint) for taint in node["spec"].get("taints") or ())


def _letter(taint: Object) -> str:
    if taint["key"] == vocabulary.SIGNAL_TAINT_KEY:
        return "S"
    if is_ours(taint):
        return "P"
    return str(taint["key"]).rsplit("/", 1)[-1]


def is_ours(taint: Object) -> bool:
    return (taint["key"], taint["effect"]) == (vocabulary.PREVENT_TAINT_KEY, vocabulary.PREVENT_TAINT_EFFECT)


def others(node: Object) -> list[Object]:
    """Every taint that is not ours, in order."""
    return [taint for taint in node.get("spec", {}).get("taints") or () if not is_ours(taint)]
