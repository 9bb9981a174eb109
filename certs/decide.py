"""The next step of the certificates' life, and why. Pure: what is there and `now` go in, one step comes out.

    nothing there ── CREATE ──► stable ◄─────────────── RETIRE ──────────────┐
                                  │                                          │
                                BEGIN                                     retiring
                                  ▼                                          ▲
                              publishing ── CONFIRM ── (overlap, seen) ── SWITCH
                                  ▲                                          ▲
    signer lost ── RECOVER ──► recovering ─ CONFIRM ──── (a moment) ─────────┘

ISSUE_LEAF and REPAIR change no step. Each is one write of the Secret, and the Secret alone says which one comes
next: whoever leads goes on from there. Old and next CA never exist beside each other while there is a signer, so that
there are never three; but for a signer that is lost while replicas serve leaves of two.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from certs.inspect import Certificate, Fault, authority_fault, bundle, leaf_fault, readable
from certs.issue import Pair
from certs.layout import Holding, Slot, missing
from certs.look import LOOK_EVERY, Step
from certs.seen import Replica
from certs.spec import BUNDLE, CA_NAME, Spec

# How often those who are waited for are looked at.
WAITING: Final = 5.0
# A replica that has not told for so long that it knows the new CA is not waited for any more.
UPPER_WAIT: Final = 300.0
# With nothing to serve, how long API servers get to hear of a new CA. They do within a second.
MOMENT: Final = 5.0
# What rounding may make of a sum of epoch seconds: so near to a moment at which something changes nothing is foretold.
_ROUNDING: Final = 0.01
# However far the next such moment is.
_LONGEST: Final = 86_400.0

CA: Final = "ca"
LEAF: Final = "leaf"


@dataclass(frozen=True, slots=True)
class Facts:
    """`holding` is None without a Secret. `live` are the CAs in the caBundle of each entry, as far as they can be read.

    `injected_at` is when a caBundle was last found to lack something and was written (epoch seconds).
    """

    holding: Holding | None
    ours: bool = True
    live: tuple[tuple[Certificate, ...], ...] = ()
    replicas: tuple[Replica, ...] = ()
    injected_at: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """`again` is the seconds until the next look, at the latest; `kept` are CAs that stay published as old ones.

    `broken` says that the reason is a fault, not that something is due.
    """

    step: Step
    why: str
    again: float = LOOK_EVERY
    kept: tuple[Certificate, ...] = ()
    broken: bool = False


def decide(facts: Facts, spec: Spec, now: float) -> Decision:
    """The next step."""
    holding = facts.holding
    if holding is None:
        return _anew(facts, Holding(), "there is no Secret", now)
    if not facts.ours:
        return Decision(Step.REFUSE, "the Secret was not made by ebbtide, and is left alone", broken=True)
    fault = _authority_fault(holding.signer, "the CA", now)
    if fault is None:
        return _mended(facts, holding, spec, now) or _due(facts, holding, spec, now)
    if _recovering(holding, now):
        return _progress(facts, holding, spec, now, urgent=_leaf_fault(holding, spec, now) is not None)
    return _anew(facts, holding, str(fault), now)


def due_at(certificate: Certificate, backdate: float) -> float:
    """When two thirds of a certificate's life are over; what it was dated back does not count."""
    life = max(0.0, certificate.not_after - certificate.not_before - backdate)
    return certificate.not_after - life / 3


def same_until(facts: Facts, spec: Spec, now: float) -> float:
    """The next moment (epoch seconds) at which time alone may change the step for these facts, or what it keeps."""
    moments = (moment for moment in _moments(facts, spec) if moment > now - _ROUNDING)
    return min([*moments, now + _LONGEST])


def replicas_matter(facts: Facts) -> bool:
    """Whether a decision needs to know the replicas. In most looks nobody has to be asked."""
    if facts.holding is None:
        return True
    holding = facts.holding
    whole = isinstance(holding.signer, Pair) and not isinstance(holding.old, Fault)
    return facts.ours and not (whole and holding.next is None)


# --- when something is broken ---------------------------------------------------------------------------------------


def _anew(facts: Facts, holding: Holding, why: str, now: float) -> Decision:
    """The key of the CA is lost: another CA is needed, and while something may be served that the lost one issued,
    it has to be published beside the new one, and ahead of it."""
    kept = tuple(_serving(facts, holding, now))
    if not kept and _authority_fault(holding.next, "", now) is not None:
        return Decision(Step.CREATE, why, broken=True)
    return Decision(Step.RECOVER, why, kept=kept, broken=True)


def _serving(facts: Facts, holding: Holding, now: float) -> list[Certificate]:
    """Those CAs whose leaves are served: the replicas know, else it is the one that stands first."""
    known = _known(facts, holding, now)
    named = {replica.issuer for replica in facts.replicas}
    return [each for each in known if each.short in named] or known[:1]


def _known(facts: Facts, holding: Holding, now: float) -> list[Certificate]:
    """Every valid CA of ours but the next, from the Secret as far as it can be read, and from the caBundles."""
    return list(dict.fromkeys(each for each in _candidates(facts, holding) if _is_ours(each, now)))


def _candidates(facts: Facts, holding: Holding) -> Iterator[Certificate]:
    after = holding.next.certificate if isinstance(holding.next, Pair) else None
    for found in (_certificate(holding.signer), *_readable(holding.old), *_listed(holding)):
        if found is not None and found != after:
            yield found
    for entry in facts.live:
        yield from (each for each in entry if each != after)


def _certificate(slot: Slot) -> Certificate | None:
    return slot.certificate if slot is not None else None


def _readable(found: tuple[Certificate, ...] | Fault) -> tuple[Certificate, ...]:
    return () if isinstance(found, Fault) else found


def _listed(holding: Holding) -> tuple[Certificate, ...]:
    return readable(holding.listed, BUNDLE)


def _is_ours(certificate: Certificate, now: float) -> bool:
    return CA_NAME in certificate.subject and authority_fault(certificate, now) is None


def _recovering(holding: Holding, now: float) -> bool:
    whole = holding.signer is None and not isinstance(holding.old, Fault) and _bundle_agrees(holding)
    return whole and _authority_fault(holding.next, "", now) is None


def _mended(facts: Facts, holding: Holding, spec: Spec, now: float) -> Decision | None:
    """What to do about a part that is broken while the CA is sound."""
    if isinstance(holding.old, Fault):
        before = [each for each in _known(facts, holding, now) if each != _certificate(holding.signer)]
        return Decision(Step.REPAIR, str(holding.old), kept=tuple(before[:1]), broken=True)
    if holding.next is not None and (fault := _authority_fault(holding.next, "the next CA", now)):
        return Decision(Step.REPAIR, f"no leaf can be issued by the next CA: {fault}", kept=holding.old, broken=True)
    if fault := _leaf_fault(holding, spec, now):
        return Decision(Step.ISSUE_LEAF, str(fault), broken=True)
    if not _bundle_agrees(holding):
        return Decision(Step.REPAIR, f"{BUNDLE} is not the bundle of these CAs", kept=holding.old, broken=True)
    return None


def _bundle_agrees(holding: Holding) -> bool:
    return holding.listed == bundle(holding.authorities)


def _authority_fault(slot: Slot, what: str, now: float) -> Fault | None:
    if isinstance(slot, Pair):
        return authority_fault(slot.certificate, now)
    return slot or missing(what)


def _leaf_fault(holding: Holding, spec: Spec, now: float) -> Fault | None:
    if not isinstance(holding.leaf, Pair):
        return holding.leaf or missing("the leaf")
    issuers = [_certificate(holding.signer), *_readable(holding.old)]
    return leaf_fault(holding.leaf.certificate, spec.names, filter(None, issuers), now)


# --- when all is sound ----------------------------------------------------------------------------------------------


def _due(facts: Facts, holding: Holding, spec: Spec, now: float) -> Decision:
    """What time, or somebody, asks for."""
    assert isinstance(holding.signer, Pair)
    assert isinstance(holding.leaf, Pair)
    assert not isinstance(holding.old, Fault)
    signer, leaf = holding.signer.certificate, holding.leaf.certificate
    if holding.old and now >= (until := _old_until(holding, holding.old)):
        return Decision(Step.RETIRE, f"the last leaf of the old CA ended {now - until:.0f} s ago")
    leaf_due, signer_due = due_at(leaf, spec.backdate), due_at(signer, spec.backdate)
    if holding.request == LEAF:
        return Decision(Step.ISSUE_LEAF, "somebody has asked for it")
    # A leaf that ends with its CA is as long as it can be: only a new CA helps.
    if now >= leaf_due and leaf.not_after < signer.not_after:
        return Decision(Step.ISSUE_LEAF, "two thirds of the leaf's life are over")
    if holding.next is not None:
        return _progress(facts, holding, spec, now, urgent=False)
    if holding.request == CA or now >= signer_due:
        return _begin(holding, "somebody has asked for it" if now < signer_due else "two thirds of its life are over")
    dues = [leaf_due, signer_due, *([_old_until(holding, holding.old)] if holding.old else [])]
    return Decision(Step.NOTHING, "nothing is due", again=_soonest(dues, now))


def _begin(holding: Holding, why: str) -> Decision:
    if holding.old:
        return Decision(Step.NOTHING, "a new CA has to wait until the last leaf of the old one has ended")
    return Decision(Step.BEGIN, f"a new CA is needed: {why}")


def _old_until(holding: Holding, old: Iterable[Certificate]) -> float:
    end = max(each.not_after for each in old)
    return end if holding.old_until is None else min(end, holding.old_until)


def _soonest(times: Iterable[float], now: float) -> float:
    """Seconds until the next of the times that is still to come, a minute at most."""
    return min([LOOK_EVERY, *(max(time - now, 0.1) for time in times if time > now)])


# --- from one CA to the next ----------------------------------------------------------------------------------------


def _progress(facts: Facts, holding: Holding, spec: Spec, now: float, *, urgent: bool) -> Decision:
    """How far the next CA is known. It is `urgent` when there is no leaf that a replica could begin to serve."""
    assert isinstance(holding.next, Pair)
    coming = holding.next.certificate
    if not all(coming in entry for entry in facts.live):
        return Decision(Step.NOTHING, "the next CA is not in every caBundle yet", again=WAITING)
    # A date that lies ahead was written by a clock that went wrong.
    if holding.published_at is None or holding.published_at > now:
        return Decision(Step.CONFIRM, "the next CA is in every caBundle")
    elapsed = now - max(holding.published_at, min(facts.injected_at or 0.0, now))
    overlap = min(spec.overlap, MOMENT) if urgent else spec.overlap
    if elapsed < overlap:
        again = min(overlap - elapsed, LOOK_EVERY)
        return Decision(Step.NOTHING, "API servers are given time to hear of the next CA", again=again)
    behind = [replica.pod for replica in facts.replicas if coming.short not in replica.knows]
    if behind and not urgent and elapsed < UPPER_WAIT:
        return Decision(Step.NOTHING, f"{', '.join(sorted(behind))} has not heard of the next CA yet", again=WAITING)
    return Decision(Step.SWITCH, "the next CA is known everywhere" if not behind else "it has been published for long")


# --- when time alone changes something ------------------------------------------------------------------------------


def _moments(facts: Facts, spec: Spec) -> Iterator[float]:
    """Every time that a decision about these facts compares with now."""
    holding = facts.holding or Holding()
    for each in (*map(_certificate, (holding.leaf, holding.signer, holding.next)), *_candidates(facts, holding)):
        if each is not None:
            yield from (each.not_before, each.not_after, due_at(each, spec.backdate))
    if holding.old_until is not None:
        yield holding.old_until
    if holding.next is not None:
        for begun in (holding.published_at, facts.injected_at):
            if begun is not None:
                yield from (begun, begun + spec.overlap, begun + MOMENT, begun + UPPER_WAIT)
