"""Which pod of one owner is deleted now, and why the others stay: facts in, plan with reasons out.

The unit is the controlling owner: it makes a new pod of a deleted one, and so shows whether deleting has any effect.
Durations are seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ebbtide.exclusion.carried import Difference, difference
from ebbtide.exclusion.decide import Exclusion
from ebbtide.exclusion.pod import PodTraits
from ebbtide.model import Owner
from ebbtide.vocabulary import BLOCK_ANNOTATION, BLOCK_IGNORE


@dataclass(frozen=True, slots=True)
class OwnerKey:
    """The controlling owner of pods."""

    namespace: str
    owner: Owner

    def __str__(self) -> str:
        return f"{self.owner.kind} {self.namespace}/{self.owner.name}"


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that waits for a node. `ran` is set once a kubelet or the scheduler has had it, whatever it is now."""

    name: str
    uid: str
    resource_version: int = field(compare=False)
    traits: PodTraits
    pending: bool
    deleting: bool
    ran: bool
    gated: bool

    @property
    def key(self) -> str:
        return f"{self.traits.namespace}/{self.name}"

    @property
    def owner(self) -> OwnerKey | None:
        return None if self.traits.owner is None else OwnerKey(self.traits.namespace, self.traits.owner)


@dataclass(frozen=True, slots=True)
class History:
    """What became of earlier deletions of the owner's pods.

    `confirms_in` seconds at most a deleted pod's successor is awaited, 0 when none is. `retry_in` seconds the owner is
    left alone, because `futile` pods in a row came back as they were.
    """

    confirms_in: float = 0.0
    retry_in: float = 0.0
    futile: int = 0


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    """An owner's waiting pods, each with what is decided about its zones now, and what else counts.

    `webhook` says whether the API server calls our webhook for pods at all; `settles_in` seconds the state of zones has
    to stand still before anything is done about it.
    """

    pods: Sequence[tuple[PendingPod, Exclusion]]
    webhook: bool = True
    ignored: bool = False
    settles_in: float = 0.0
    history: History = History()


class Wait(StrEnum):
    """Why a pod that is to be admitted again is still there; the values are those of a metric label."""

    NO_WEBHOOK = "no-webhook"
    SETTLING = "settling"
    CONFIRMING = "confirming"
    BACK_OFF = "back-off"
    NEXT = "next"


WORDS = {
    Wait.NO_WEBHOOK: "no webhook configuration of ours is there, so that it would come back as it is",
    Wait.SETTLING: "the state of its zones has just changed",
    Wait.CONFIRMING: "the successor of another pod of its owner is awaited",
    Wait.BACK_OFF: "earlier pods of its owner came back as they were",
    Wait.NEXT: "another pod of its owner goes first",
}


@dataclass(frozen=True, slots=True)
class Deletion:
    """A pod that is to be admitted again, and what is wrong with it."""

    pod: PendingPod
    why: Difference


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that is to be admitted again, but not now."""

    pod: PendingPod
    why: Difference
    wait: Wait


@dataclass(frozen=True, slots=True)
class Kept:
    """A pod with an exclusion that is out of date and that is never deleted, with the reason."""

    pod: PendingPod
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do for one owner now; `look_again_in` seconds even if nothing happens, None if only events matter."""

    delete: Deletion | None = None
    waiting: tuple[Waiting, ...] = ()
    kept: tuple[Kept, ...] = ()
    look_again_in: float | None = None


def decide(owner: OwnerFacts) -> Plan:
    """The plan for one owner: at most one of its pods is deleted at a time."""
    outdated, kept = _outdated(owner)
    if not outdated:
        return Plan(kept=kept)
    wait, seconds = _wait(owner)
    if wait is not None:
        waiting = tuple(Waiting(each.pod, each.why, wait) for each in outdated)
        return Plan(waiting=waiting, kept=kept, look_again_in=seconds)
    first, *others = outdated
    return Plan(first, tuple(Waiting(each.pod, each.why, Wait.NEXT) for each in others), kept)


def judge_pod(pod: PendingPod, *, ignored: bool = False) -> str:
    """Why the pod is never deleted, whatever it carries; "" if it may be. `ignored`: its namespace is left alone."""
    owner = pod.traits.owner
    reasons = (
        (pod.deleting, "it is terminating"),
        (pod.traits.bound, "it has a node"),
        (pod.ran or not pod.pending, "it ran before"),
        (owner is None, "it has no controller that would make a new one"),
        # Job controller, isPodFailed: a pod that is deleted before it has finished counts against backoffLimit.
        (owner is not None and owner.kind == "Job", "its Job would count the deletion as a failure"),
        (pod.gated, "its scheduling gates are closed"),
        (ignored, f"its namespace is annotated {BLOCK_ANNOTATION}={BLOCK_IGNORE}"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _outdated(owner: OwnerFacts) -> tuple[list[Deletion], tuple[Kept, ...]]:
    """The pods that are to be admitted again, by name, and those that would be but for a reason."""
    outdated: list[Deletion] = []
    kept: list[Kept] = []
    for pod, exclusion in sorted(owner.pods, key=lambda pair: pair[0].key):
        differs = difference(pod.traits, exclusion)
        if differs is None:
            continue
        reason = judge_pod(pod, ignored=owner.ignored)
        if reason:
            kept.append(Kept(pod, reason))
        else:
            outdated.append(Deletion(pod, differs))
    return outdated, tuple(kept)


def _wait(owner: OwnerFacts) -> tuple[Wait | None, float | None]:
    """Why nothing of this owner is deleted now, and for how long; None and None if something may be."""
    if not owner.webhook:
        return Wait.NO_WEBHOOK, None
    waits = (
        (Wait.SETTLING, owner.settles_in),
        (Wait.CONFIRMING, owner.history.confirms_in),
        (Wait.BACK_OFF, owner.history.retry_in),
    )
    return next(((wait, seconds) for wait, seconds in waits if seconds > 0), (None, None))
