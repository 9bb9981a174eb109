"""A step → what the Secret holds after it. Pure but for the keys that are drawn."""

from dataclasses import replace

from certs.decide import CA, LEAF, Decision
from certs.inspect import Fault, authority_fault
from certs.issue import Pair, new_authority, new_leaf
from certs.layout import Holding
from certs.look import Step
from certs.spec import Spec


def carried_out(decision: Decision, holding: Holding, spec: Spec, now: float) -> Holding:
    """What is to be stored. The step has to be one that changes something."""
    match decision.step:
        case Step.CREATE:
            authority = new_authority(spec, now)
            return _with_leaf(Holding(signer=authority), authority, spec, now)
        case Step.ISSUE_LEAF:
            assert isinstance(holding.signer, Pair)
            return _answered(_with_leaf(holding, holding.signer, spec, now), LEAF)
        case Step.REPAIR:
            following = holding.next if _usable(holding.next, now) else None
            published = holding.published_at if following else None
            return replace(holding, next=following, old=decision.kept, published_at=published)
        case Step.BEGIN:
            return _answered(replace(holding, next=new_authority(spec, now), published_at=None), CA)
        case Step.RECOVER:
            return _recovering(decision, holding, spec, now)
        case Step.CONFIRM:
            return replace(holding, published_at=float(int(now)))
        case Step.SWITCH:
            return _switched(holding, spec, now)
        case Step.RETIRE:
            return replace(holding, old=(), old_until=None)
        case Step.NOTHING | Step.REFUSE:
            raise ValueError(f"{decision.step} changes nothing")


def _with_leaf(holding: Holding, authority: Pair, spec: Spec, now: float) -> Holding:
    leaf = new_leaf(spec, authority, now)
    ends = max(holding.last_leaf_ends or 0.0, leaf.certificate.not_after)
    return replace(holding, leaf=leaf, last_leaf_ends=ends)


def _recovering(decision: Decision, holding: Holding, spec: Spec, now: float) -> Holding:
    """A next CA beside those of which only the certificates are left. A leaf of theirs stays while it is sound."""
    following = holding.next if _usable(holding.next, now) else new_authority(spec, now)
    known = holding.next is following
    ends = holding.last_leaf_ends or now + spec.leaf_lifetime
    return replace(
        holding,
        signer=None,
        next=following,
        old=decision.kept,
        published_at=holding.published_at if known else None,
        last_leaf_ends=None,
        old_until=max(ends, holding.old_until or 0.0) if decision.kept else None,
    )


def _switched(holding: Holding, spec: Spec, now: float) -> Holding:
    assert isinstance(holding.next, Pair)
    assert not isinstance(holding.old, Fault)
    after = replace(holding, signer=holding.next, next=None, published_at=None, last_leaf_ends=None, request="")
    if isinstance(holding.signer, Pair):
        last = holding.signer.certificate
        after = replace(after, old=(last,), old_until=holding.last_leaf_ends or last.not_after)
    return _with_leaf(after, holding.next, spec, now)


def _answered(holding: Holding, request: str) -> Holding:
    return replace(holding, request="") if holding.request == request else holding


def _usable(slot: object, now: float) -> bool:
    return isinstance(slot, Pair) and authority_fault(slot.certificate, now) is None
