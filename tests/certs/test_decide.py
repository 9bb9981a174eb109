"""Which step comes next: every state of the Secret, sound and broken, at every time that matters."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.decide import MOMENT, UPPER_WAIT, Facts, decide, due_at, same_until
from certs.inspect import Certificate, Fault, Kind, key_fault
from certs.issue import Pair, new_authority, new_leaf
from certs.layout import Holding
from certs.look import LOOK_EVERY, Step
from certs.seen import Replica
from tests.certs.builders import (
    DAY,
    HOUR,
    NOW,
    SPEC,
    authority,
    leaf,
    publishing,
    recovering,
    retiring,
    self_signed,
    spec,
    stable,
)

FIRST, SECOND = authority().certificate, authority("second").certificate
GARBAGE = Fault(Kind.GARBAGE, "no certificate")
LEAF_DUE = due_at(leaf().certificate, SPEC.backdate)
CA_DUE = due_at(FIRST, SPEC.backdate)


def lost(certificate: Certificate) -> Fault:
    """Its key cannot be read."""
    found = key_fault(certificate, b"garbage", "the key")
    assert found is not None
    return found


def replica(*knows: Certificate, issuer: Certificate = FIRST, pod: str = "w-0") -> Replica:
    return Replica(pod, frozenset(each.short for each in knows), issuer.short)


@dataclass(frozen=True)
class Case:
    name: str
    holding: Holding | None
    step: Step
    at: float = NOW
    live: tuple[tuple[Certificate, ...], ...] = ((FIRST,),)
    replicas: tuple[Replica, ...] = ()
    kept: tuple[Certificate, ...] | None = None
    ours: bool = True
    again: float | None = None


BOTH = ((FIRST, SECOND), (FIRST, SECOND))
PUBLISHED = publishing(published_at=NOW)
young = authority("young", NOW + 3 * HOUR)
short_lived = new_leaf(replace(SPEC, leaf_lifetime=3000 * DAY), authority(), NOW)

CASES = (
    # --- nothing is there -----------------------------------------------------------------------------------------
    Case("WH-43 first start", None, Step.CREATE, live=()),
    Case("first start, configurations without a bundle", None, Step.CREATE, live=((), ())),
    Case("the Secret was deleted, its CA is published", None, Step.RECOVER, kept=(FIRST,)),
    Case("deleted while retiring: the first of the bundle serves", None, Step.RECOVER, live=BOTH, kept=(FIRST,)),
    Case(
        "deleted just after a switch: the replicas know who issued their leaf",
        None,
        Step.RECOVER,
        live=BOTH,
        replicas=(replica(FIRST, SECOND, issuer=SECOND),),
        kept=(SECOND,),
    ),
    Case("deleted, a foreign CA is published", None, Step.CREATE, live=((self_signed().certificate,),)),
    Case("deleted, the published CA has expired", None, Step.CREATE, at=FIRST.not_after + 1),
    # --- WH-48 ----------------------------------------------------------------------------------------------------
    Case("WH-48 empty, nothing published", Holding(), Step.CREATE, live=()),
    Case("WH-48 empty, the CA is published", Holding(), Step.RECOVER, kept=(FIRST,)),
    Case("WH-48 garbage for the leaf", stable(leaf=GARBAGE), Step.ISSUE_LEAF),
    Case("WH-48 the leaf is missing", stable(leaf=None), Step.ISSUE_LEAF),
    Case("WH-48 key of another certificate", stable(leaf=lost(leaf().certificate)), Step.ISSUE_LEAF),
    Case("WH-48 garbage for the CA's key", stable(signer=lost(FIRST)), Step.RECOVER, kept=(FIRST,)),
    Case("WH-48 garbage for the CA", stable(signer=GARBAGE, listed=b""), Step.RECOVER, kept=(FIRST,)),
    Case(
        "garbage for the CA, known from the Secret's own bundle alone",
        stable(signer=GARBAGE, listed=FIRST.pem),
        Step.RECOVER,
        live=(),
        kept=(FIRST,),
    ),
    Case("garbage for the CA that nobody knows", stable(signer=GARBAGE), Step.CREATE, live=()),
    Case("WH-48 CA and leaf expired", stable(), Step.CREATE, at=FIRST.not_after + 1),
    Case("WH-48 leaf expired", stable(), Step.ISSUE_LEAF, at=leaf().certificate.not_after + 1),
    Case("WH-48 wrong names", stable(leaf=leaf(extra=("more.example.com",))), Step.ISSUE_LEAF),
    Case("WH-48 leaf not valid yet", stable(leaf=leaf(begun=NOW + 2 * HOUR)), Step.ISSUE_LEAF),
    Case("CA not valid yet", stable(signer=young), Step.RECOVER, kept=(FIRST,)),
    Case("WH-48 not made by us", stable(leaf=GARBAGE), Step.REFUSE, ours=False),
    Case("not made by us, and sound", stable(), Step.REFUSE, ours=False),
    Case("a leaf of an unknown CA", stable(leaf=leaf("third")), Step.ISSUE_LEAF),
    Case("a CA where the leaf should be", stable(leaf=authority()), Step.ISSUE_LEAF),
    Case("a leaf where the CA should be", stable(signer=leaf()), Step.RECOVER, kept=(FIRST,)),
    Case("a CA of another form", stable(signer=self_signed(key="p384")), Step.RECOVER, kept=(FIRST,)),
    Case("a CA without a limit of its path", stable(signer=self_signed(path_length=None)), Step.RECOVER, kept=(FIRST,)),
    Case("somebody has changed the bundle in the Secret", stable(listed=SECOND.pem), Step.REPAIR, kept=()),
    # --- time -----------------------------------------------------------------------------------------------------
    Case("nothing is due", stable(), Step.NOTHING, again=LOOK_EVERY),
    Case("just before two thirds of the leaf's life", stable(), Step.NOTHING, at=LEAF_DUE - 1, again=1.0),
    Case("two thirds of the leaf's life", stable(), Step.ISSUE_LEAF, at=LEAF_DUE),
    Case("somebody asks for a leaf", stable(request="leaf"), Step.ISSUE_LEAF),
    Case("somebody asks for nonsense", stable(request="everything"), Step.NOTHING),
    Case("two thirds of the CA's life", stable(leaf=leaf(begun=CA_DUE - DAY)), Step.BEGIN, at=CA_DUE),
    Case("somebody asks for a CA", stable(request="ca"), Step.BEGIN),
    Case("the leaf ends with its CA: another would be no longer", stable(leaf=short_lived), Step.BEGIN, at=CA_DUE + 5),
    # --- WH-46 ----------------------------------------------------------------------------------------------------
    Case("WH-46 the next CA is in no bundle", publishing(), Step.NOTHING),
    Case("WH-46 one entry lacks it", publishing(), Step.NOTHING, live=((FIRST, SECOND), (FIRST,))),
    Case("WH-46 it is everywhere", publishing(), Step.CONFIRM, live=BOTH),
    Case("WH-46 just before the overlap is over", PUBLISHED, Step.NOTHING, at=NOW + 59, live=BOTH, again=1.0),
    Case("WH-46 the overlap is over", PUBLISHED, Step.SWITCH, at=NOW + 60, live=BOTH),
    Case("WH-46 it is over, and one entry was wiped", PUBLISHED, Step.NOTHING, at=NOW + 60, live=((FIRST, SECOND), ())),
    Case(
        "WH-46 a replica has not seen it",
        PUBLISHED,
        Step.NOTHING,
        at=NOW + 60,
        live=BOTH,
        replicas=(replica(FIRST, SECOND), replica(FIRST, pod="w-1")),
    ),
    Case(
        "WH-46 every replica has seen it",
        PUBLISHED,
        Step.SWITCH,
        at=NOW + 60,
        live=BOTH,
        replicas=(replica(FIRST, SECOND), replica(FIRST, SECOND, pod="w-1")),
    ),
    Case(
        "WH-46 a replica that never tells is waited for five minutes",
        PUBLISHED,
        Step.SWITCH,
        at=NOW + UPPER_WAIT,
        live=BOTH,
        replicas=(replica(),),
    ),
    Case("published by a clock that went ahead", publishing(published_at=NOW + DAY), Step.CONFIRM, live=BOTH),
    Case("the leaf is due while publishing", PUBLISHED, Step.ISSUE_LEAF, at=LEAF_DUE, live=BOTH),
    Case("the next CA is garbled", publishing(next=GARBAGE), Step.REPAIR),
    Case("the key of the next CA is lost", publishing(next=lost(SECOND)), Step.REPAIR),
    Case(
        "the CA is garbled while publishing",
        replace(PUBLISHED, signer=GARBAGE),
        Step.RECOVER,
        live=BOTH,
        kept=(FIRST,),
    ),
    Case("the old CA's last leaf lives", retiring(), Step.NOTHING, at=NOW + DAY),
    Case(
        "WH-46 the old CA's last leaf has ended",
        retiring(leaf=leaf("second", NOW + 59 * DAY)),
        Step.RETIRE,
        at=NOW + 60 * DAY,
    ),
    Case(
        "nobody knows when the last leaf ends: with the CA",
        retiring(old_until=None),
        Step.ISSUE_LEAF,
        at=NOW + 61 * DAY,
    ),
    Case("somebody asks for a CA while the old one is published", retiring(request="ca"), Step.NOTHING),
    Case("the old CA is garbled", retiring(old=GARBAGE), Step.REPAIR, live=((SECOND, FIRST),), kept=(FIRST,)),
    # --- the CA's key is lost -------------------------------------------------------------------------------------
    Case("recovering, not published yet", recovering(), Step.NOTHING),
    Case("recovering, published", recovering(), Step.CONFIRM, live=BOTH),
    Case(
        "recovering, nothing to serve: a moment is enough",
        recovering(published_at=NOW),
        Step.SWITCH,
        at=NOW + MOMENT,
        live=BOTH,
    ),
    Case(
        "recovering, the leaf is sound: the whole overlap",
        recovering(published_at=NOW, leaf=leaf()),
        Step.NOTHING,
        at=NOW + MOMENT,
        live=BOTH,
    ),
    Case(
        "recovering, the leaf is sound, overlap over",
        recovering(published_at=NOW, leaf=leaf()),
        Step.SWITCH,
        at=NOW + 60,
        live=BOTH,
    ),
    Case(
        "garbled again: what serves is known from the replicas",
        Holding(),
        Step.RECOVER,
        live=BOTH,
        replicas=(replica(FIRST),),
        kept=(FIRST,),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_next_step(case: Case) -> None:
    facts = Facts(case.holding, case.ours, case.live, case.replicas)
    decision = decide(facts, SPEC, case.at)
    assert decision.step is case.step, decision.why
    assert decision.why
    assert 0 < decision.again <= LOOK_EVERY
    if case.kept is not None:
        assert decision.kept == case.kept
    if case.again is not None:
        assert decision.again == pytest.approx(case.again)


# Near to these times something happens to one case or the other.
MOMENTS = (
    *(NOW, NOW + MOMENT, NOW + 60, NOW + UPPER_WAIT, NOW + DAY, NOW + 59 * DAY, NOW + 60 * DAY),
    *(LEAF_DUE, CA_DUE, leaf().certificate.not_after, FIRST.not_after, young.certificate.not_before),
)
AWAY = st.sampled_from([0.0, 0.5, 2.0, 20.0, 200.0, HOUR, 0.9 * DAY])


@settings(max_examples=1500, deadline=None)
@given(
    case=st.sampled_from(CASES),
    moment=st.sampled_from(MOMENTS),
    away=AWAY,
    injected=st.sampled_from([None, NOW - 10, NOW + 50]),
    part=st.floats(0.0, 1.0, exclude_max=True),
)
def test_until_the_time_that_is_foretold_every_decision_is_the_same(
    case: Case, moment: float, away: float, injected: float | None, part: float
) -> None:
    """So that whoever remembers one need not ask again: nothing but the facts can change it before."""
    facts = Facts(case.holding, case.ours, case.live, case.replicas, injected)
    now = moment - away
    end = same_until(facts, SPEC, now)
    assert now - 0.011 < end <= now + DAY
    first = decide(facts, SPEC, now)
    for later in (now + part * (end - now), end - 0.001):
        if now < later < end:
            decision = decide(facts, SPEC, later)
            assert (decision.step, decision.kept, decision.broken) == (first.step, first.kept, first.broken)


def test_a_bundle_that_had_to_be_written_again_begins_the_overlap_anew() -> None:
    """API servers may have heard of the wiped bundle last."""
    facts = Facts(PUBLISHED, True, BOTH, injected_at=NOW + 50)
    assert decide(facts, SPEC, NOW + 60).step is Step.NOTHING
    assert decide(facts, SPEC, NOW + 110).step is Step.SWITCH


def test_names_that_are_added_to_the_settings_need_another_leaf() -> None:
    """And no other CA."""
    assert decide(Facts(stable()), spec(extra_sans=("w.example.com",)), NOW).step is Step.ISSUE_LEAF


def test_the_time_that_certificates_are_dated_back_is_no_part_of_their_life() -> None:
    """A leaf that lives for an hour is not due as soon as it is issued."""
    hourly = spec(leaf_lifetime=3600.0)
    issued = new_leaf(hourly, new_authority(hourly, NOW), NOW)
    assert isinstance(issued, Pair)
    assert due_at(issued.certificate, hourly.backdate) == pytest.approx(NOW + 2400)
