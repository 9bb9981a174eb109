"""Resource amounts: what pods ask for and nodes offer, as whole numbers that add up exactly."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, Final

Raw = Mapping[str, Any]

# Kubernetes' quantity suffixes: decimal and binary (k8s.io/apimachinery/pkg/api/resource).
_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_QUANTITY: Final = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[a-zA-Z]*)")

# The kubelet's default for `maxPods`.
_DEFAULT_PODS: Final = "110"


@dataclass(frozen=True, slots=True)
class Amounts:
    """`cpu` in thousandths of a core, `memory` in bytes, `pods` as a count."""

    cpu: int = 0
    memory: int = 0
    pods: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(self.cpu + other.cpu, self.memory + other.memory, self.pods + other.pods)

    def __sub__(self, other: "Amounts") -> "Amounts":
        return Amounts(self.cpu - other.cpu, self.memory - other.memory, self.pods - other.pods)

    def at_least(self, other: "Amounts") -> "Amounts":
        """The larger of both, resource by resource."""
        return Amounts(max(self.cpu, other.cpu), max(self.memory, other.memory), max(self.pods, other.pods))


def quantity(text: str) -> Fraction:
    """The value of a Kubernetes quantity such as `1500m`, `2Gi`, `1e3`. Raises ValueError for anything else."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match["suffix"] not in _SUFFIXES:
        raise ValueError(f"not a quantity: {text!r}")
    return Fraction(match["number"]) * _SUFFIXES[match["suffix"]]


def allocatable(node: Raw) -> Amounts:
    """What pods may use of a node: `status.allocatable`, else `status.capacity`."""
    status = node.get("status") or {}
    offered = status.get("allocatable") or status.get("capacity") or {}
    return _amounts(offered, pods=_rounded_up(str(offered.get("pods", _DEFAULT_PODS))))


def requested(pod: Raw) -> Amounts:
    """What a pod asks for: its containers together, or the largest init container, whichever is more; one pod."""
    spec = pod.get("spec") or {}
    together = Amounts(pods=1)
    for asked in _requests(spec.get("containers") or ()):
        together += asked
    for asked in _requests(spec.get("initContainers") or ()):
        together = together.at_least(asked)
    return together + _amounts(spec.get("overhead") or {})


def _requests(containers: Iterable[Raw]) -> Iterable[Amounts]:
    for container in containers:
        resources = container.get("resources") or {}
        yield _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(listed: Raw, pods: int = 0) -> Amounts:
    return Amounts(_rounded_up(str(listed.get("cpu", 0)), 1000), _rounded_up(str(listed.get("memory", 0))), pods)


@lru_cache(maxsize=1024)
def _rounded_up(text: str, scale: int = 1) -> int:
    """The quantity in whole parts of which `scale` make one, as Kubernetes rounds it: up."""
    return ceil(quantity(text) * scale)
