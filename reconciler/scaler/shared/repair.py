"""Pods and claims of the pool that only a deletion can help. Pure but for `Patience`, which remembers looks.

The StatefulSet makes each pod anew under its name. Never one with load: what it has, or was promised, would be lost.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from ebbtide import vocabulary
from reconciler.scaler.pods import WorkerClaim, WorkerPod, WorkerSet
from reconciler.scaler.shared.facts import PodState, PoolPod
from reconciler.scaler.shared.objects import ordinal_of_claim

K = TypeVar("K", bound=Hashable)

# A pod without its claim is given this long (seconds) to get it from its controller.
HANGING_AFTER: Final = 30.0
# A claim has been without its pod for this long, and in two looks, before it is collected.
ORPHANED_AFTER: Final = 60.0


class Why(StrEnum):
    """Why a pod is replaced."""

    TIED = "its volume is in a blocked zone, and it is empty"
    OLD = "it never ran, and the template has been changed since"
    HANGING = "it waits for a volume claim that does not exist"


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod, and what is known around it. `tied`: a volume of it is in a blocked zone; `lacking`: claims that are not
    there."""

    pod: WorkerPod
    facts: PoolPod
    tied: bool
    lacking: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replacement:
    """A pod to be deleted; `ask` first whether it is still empty, `claims` with it."""

    pod: WorkerPod
    why: Why
    ask: bool = False
    claims: tuple[str, ...] = ()


def replacements(own: WorkerSet, seen: Iterable[Seen]) -> tuple[Replacement, ...]:
    """What is to be made anew now."""
    found = (_replacement(own, each) for each in seen if not (each.pod.deleting or each.facts.load))
    return tuple(replacement for replacement in found if replacement is not None)


def _replacement(own: WorkerSet, seen: Seen) -> Replacement | None:
    facts, pod = seen.facts, seen.pod
    if seen.tied and (facts.good or not pod.node):
        return Replacement(pod, Why.TIED, ask=facts.good, claims=pod.claims)
    if facts.state is not PodState.STARTING:
        return None
    if own.revision and pod.revision and pod.revision != own.revision:
        return Replacement(pod, Why.OLD)
    if seen.lacking and facts.lasting >= HANGING_AFTER:
        return Replacement(pod, Why.HANGING)
    return None


def orphans(
    claims: Iterable[WorkerClaim], pods: Mapping[int, WorkerPod], own: WorkerSet | None, pool: str
) -> list[str]:
    """Keys of claims whose ordinal is gone, where the server does not collect them itself."""
    if own is not None and own.when_scaled == "Delete":
        return []
    replicas = 0 if own is None else own.replicas
    ours = (
        (claim, ordinal_of_claim(claim.name, pool))
        for claim in claims
        if claim.labels.get(vocabulary.POOL_LABEL) == vocabulary.POOL_SHARED and not claim.deleting
    )
    return [claim.key for claim, ordinal in ours if ordinal >= replicas and ordinal not in pods]


class Patience(Generic[K]):
    """Which keys have been named in look after look for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[K, float] = {}

    def ripe(self, keys: Iterable[K], now: float) -> list[K]:
        """To be asked once per look; a key that is left out begins anew."""
        self._since = {key: self._since.get(key, now) for key in keys}
        return [key for key, since in self._since.items() if now - since >= self._seconds and now > since]

    def clear(self) -> None:
        self._since.clear()
