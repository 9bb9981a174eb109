"""What an operator should know of the pool: why it does not do what its load asks for. Pure.

A condition is named by one UpperCamelCase word, the same in events, metrics and state.
"""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.scaler.refusals import code_of
from reconciler.scaler.shared.facts import Pool, Rules
from reconciler.scaler.shared.shrink import Keep, Shrink


class Reason(StrEnum):
    """Conditions."""

    NO_CAPACITY = "NoCapacity"
    ZONAL_VOLUME_BLOCKED = "ZonalVolumeBlocked"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_REFUSED = "PodRefused"
    TAIL_STUCK = "TailStuck"
    STATUS_UNKNOWN = "StatusUnknown"
    CONFLICTING_WRITER = "ConflictingWriter"
    CLAIM_SIZE_PENDING = "ClaimSizePending"
    TEMPLATE_UNUSABLE = "TemplateUnusable"
    NAME_TAKEN = "NameTaken"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True)
class Condition:
    """`note` is a sentence for a person, without numbers that change from second to second."""

    reason: Reason
    note: str


@dataclass(frozen=True, slots=True)
class Around:
    """What else is known than the pool's pods.

    `unschedulable` are ordinals that the scheduler finds no node for, with its words; `tied` those whose pod cannot
    leave a blocked zone, since it has tasks and its volume is there; `unread` those whose questions fail, with why.
    `rival` is how often somebody else changed the size lately. `template` and `name` are what is wrong with the
    template, and with the set of the pool's name; `claims_pending`, that claims would be others than the set makes.
    """

    unschedulable: tuple[tuple[int, str], ...] = ()
    tied: tuple[int, ...] = ()
    unread: tuple[tuple[int, str], ...] = ()
    rival: int = 0
    template: str = ""
    name: str = ""
    claims_pending: bool = False


def conditions(pool: Pool, plan: Shrink, rules: Rules, around: Around) -> tuple[Condition, ...]:
    """All that hold now."""
    notes = {
        Reason.NO_CAPACITY: _no_capacity(pool, rules, around),
        Reason.ZONAL_VOLUME_BLOCKED: _tied(around),
        _lack(pool): _missing(pool),
        Reason.TAIL_STUCK: _stuck(pool, plan, rules),
        Reason.STATUS_UNKNOWN: _unread(around),
        Reason.CONFLICTING_WRITER: _rival(around),
        Reason.CLAIM_SIZE_PENDING: _pending(around),
        Reason.TEMPLATE_UNUSABLE: around.template,
        Reason.NAME_TAKEN: around.name,
        Reason.PAUSED: "Scaling is paused by an annotation on the pool's StatefulSet." if pool.paused else "",
    }
    return tuple(Condition(reason, note) for reason, note in notes.items() if note)


def _no_capacity(pool: Pool, rules: Rules, around: Around) -> str:
    if around.unschedulable:
        ordinals = [ordinal for ordinal, _ in around.unschedulable]
        return f"No node is found for {_pods(ordinals)}: {around.unschedulable[0][1]}"
    if pool.waiting and pool.replicas >= rules.most:
        return f"Tasks wait, and the pool has all {rules.most} pods that it may have."
    return ""


def _tied(around: Around) -> str:
    if not around.tied:
        return ""
    return f"The volumes of {_pods(around.tied)} are in a blocked zone, and tasks are there: they end there first."


def _lack(pool: Pool) -> Reason:
    """Without words of the API server it is most often a quota."""
    return Reason(code_of(pool.refused)) if pool.refused else Reason.QUOTA_EXCEEDED


def _missing(pool: Pool) -> str:
    missing = tuple(pool.lacking())
    if not missing:
        return ""
    if pool.refused:
        return f"{_pods(missing)} cannot be created: {pool.refused}"
    return (
        f"{_pods(missing)} are not created. The StatefulSet's events say why: most often a ResourceQuota, "
        "or an admission webhook that refuses them."
    )


def _stuck(pool: Pool, plan: Shrink, rules: Rules) -> str:
    if plan.kept is None or plan.kept.keep is not Keep.NEVER_RAN or plan.kept.after is not None:
        return ""
    if any(pod.hopeful(rules) for pod in pool.pods if pod.ordinal == plan.kept.ordinal):
        return ""
    return (
        f"The pool could shrink, but its last pod, {plan.kept.ordinal}, never ran and so is not removed. "
        "Mend it, or set shared-stuck-pod-expire-sec."
    )


def _unread(around: Around) -> str:
    if not around.unread:
        return ""
    return f"The tasks of {_pods([ordinal for ordinal, _ in around.unread])} cannot be read: {around.unread[0][1]}"


def _rival(around: Around) -> str:
    if not around.rival:
        return ""
    return "Somebody else changes the number of replicas again and again; it is restored, more and more slowly."


def _pending(around: Around) -> str:
    if not around.claims_pending:
        return ""
    return "The settings ask for other volumes than the StatefulSet makes: it is made anew once the pool is empty."


def _pods(ordinals: tuple[int, ...] | list[int]) -> str:
    return f"pod {ordinals[0]}" if len(ordinals) == 1 else f"pods {', '.join(map(str, ordinals))}"
