"""Which of an owner's waiting pods is deleted now, and why the others stay."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.exclusion.decide import Exclusion, Skip
from ebbtide.model import Owner
from reconciler.readmission.decide import WORDS, History, OwnerFacts, PendingPod, Plan, Wait, decide, judge_pod
from tests.ebbtide.exclusion.builders import Z
from tests.reconciler.readmission.builders import (
    BLOCKED,
    OPEN,
    controller,
    excluding,
    owner_facts,
    waiting,
    without_owner,
)


def bound() -> PendingPod:
    return waiting(nodeName="a1")


@dataclass(frozen=True)
class Case:
    """An owner's facts; the pod that goes, those that wait and why, those that are kept and words of the reason."""

    name: str
    facts: OwnerFacts
    deletes: str = ""
    waits: Wait | None = None
    kept: str = ""
    again: float | None = None


RAN = {"phase": "Pending", "containerStatuses": [{"name": "app", "state": {"waiting": {}}}]}
INITIALISING = {"phase": "Pending", "initContainerStatuses": [{"name": "init"}]}
SCHEDULED = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
REFUSED = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
ALONE = Exclusion(skipped=Skip.NOT_OPTED_IN)

CASES = [
    Case("WH-59 created before the block", owner_facts(waiting()), deletes="web-1"),
    Case("WH-59 the scheduler has refused it", owner_facts(waiting(status=REFUSED)), deletes="web-1"),
    Case("WH-59 without a status yet", owner_facts(waiting(status={})), deletes="web-1"),
    Case("WH-60 the block is over", owner_facts(excluding("web-1", "a"), exclusion=OPEN), deletes="web-1"),
    Case("it carries what is decided", owner_facts(excluding("web-1", "a"))),
    Case("nothing is decided, nothing is carried", owner_facts(waiting(), exclusion=OPEN)),
    Case("of a StatefulSet", owner_facts(waiting(owner=controller("StatefulSet"))), deletes="web-1"),
    Case("of something unheard of", owner_facts(waiting(owner=controller("TidbCluster"))), deletes="web-1"),
    Case("WH-61 bound", owner_facts(bound()), kept="node"),
    Case("WH-61 its containers were started", owner_facts(waiting(status=RAN)), kept="ran"),
    Case("WH-61 its first container was started", owner_facts(waiting(status=INITIALISING)), kept="ran"),
    Case("WH-61 scheduled", owner_facts(waiting(status=SCHEDULED)), kept="ran"),
    Case("WH-61 Running", owner_facts(waiting(status={"phase": "Running"})), kept="ran"),
    Case("WH-61 Failed", owner_facts(waiting(status={"phase": "Failed"})), kept="ran"),
    Case("WH-61 no controller", owner_facts(without_owner()), kept="controller"),
    Case("WH-61 not opted in", owner_facts(waiting(), exclusion=ALONE)),
    Case("WH-61 not opted in, with an exclusion", owner_facts(excluding("web-1", "a"), exclusion=ALONE)),
    Case("WH-61 terminating", owner_facts(replace(waiting(), deleting=True)), kept="terminating"),
    Case("of a Job", owner_facts(waiting(owner=controller("Job"))), kept="Job"),
    Case("its gates are closed", owner_facts(waiting(schedulingGates=[{"name": "quota"}])), kept="gates"),
    Case("in a namespace that is left alone", owner_facts(waiting(), ignored=True), kept="ebbtide/block=ignore"),
    Case("WH-62 a volume there", owner_facts(waiting(), exclusion=Exclusion(skipped=Skip.VOLUME))),
    Case("WH-62 the last zone", owner_facts(waiting(), exclusion=Exclusion(skipped=Skip.LAST_ZONE))),
    Case(
        "an exclusion from before the last zone was blocked",
        owner_facts(excluding("web-1", "a"), exclusion=Exclusion(skipped=Skip.LAST_ZONE)),
        deletes="web-1",
    ),
    Case("no webhook is there", owner_facts(waiting(), webhook=False), waits=Wait.NO_WEBHOOK),
    Case("zones have just changed", owner_facts(waiting(), settles_in=2.0), waits=Wait.SETTLING, again=2.0),
    Case(
        "WH-62 a successor is awaited",
        owner_facts(waiting(), history=History(confirms_in=30.0)),
        waits=Wait.CONFIRMING,
        again=30.0,
    ),
    Case(
        "WH-62 it has been no use",
        owner_facts(waiting(), history=History(retry_in=240.0, futile=3)),
        waits=Wait.BACK_OFF,
        again=240.0,
    ),
    Case("no use, but the pause is over", owner_facts(waiting(), history=History(futile=3)), deletes="web-1"),
    Case("nothing to do is not held back", owner_facts(excluding("web-1", "a"), webhook=False)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_goes_unless_there_is_a_reason(case: Case) -> None:
    """And the plan says which, and when it is looked at again."""
    plan = decide(case.facts)
    assert (plan.delete.pod.name if plan.delete else "") == case.deletes
    assert [each.wait for each in plan.waiting] == [case.waits] * (case.waits is not None)
    assert len(plan.kept) == bool(case.kept)
    assert all(case.kept in kept.reason for kept in plan.kept)
    assert plan.look_again_in == case.again


def test_one_pod_of_an_owner_goes_at_a_time_in_the_order_of_names() -> None:
    """Its successor tells whether deleting the others would be of any use."""
    plan = decide(owner_facts(waiting("web-3"), waiting("web-1"), excluding("web-0", "a"), waiting("web-2")))
    assert plan.delete is not None
    assert plan.delete.pod.name == "web-1"
    assert [(each.pod.name, each.wait) for each in plan.waiting] == [("web-2", Wait.NEXT), ("web-3", Wait.NEXT)]


def test_a_pod_that_is_kept_does_not_hold_up_the_others() -> None:
    """A gated pod in front of one that can go."""
    plan = decide(owner_facts(waiting("web-1", schedulingGates=[{"name": "quota"}]), waiting("web-2")))
    assert plan.delete is not None
    assert plan.delete.pod.name == "web-2"


def test_every_wait_has_words() -> None:
    """For whoever asks for an explanation."""
    assert set(WORDS) == set(Wait)


PODS = st.builds(
    replace,
    st.sampled_from([waiting(f"web-{n}") for n in range(3)] + [excluding("web-3", "a"), without_owner("web-4")]),
    deleting=st.booleans(),
    ran=st.booleans(),
    gated=st.booleans(),
)
FACTS = st.builds(
    OwnerFacts,
    st.lists(st.tuples(PODS, st.sampled_from([BLOCKED, OPEN, ALONE, Exclusion(("b",), (Z,))])), max_size=4),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 2.0]),
    st.builds(History, st.sampled_from([0.0, 5.0]), st.sampled_from([0.0, 60.0]), st.integers(0, 4)),
)


@settings(deadline=None)
@given(FACTS)
def test_wh_61_whatever_else_is_so_the_wrong_pods_never_go(facts: OwnerFacts) -> None:
    """And every pod that goes has no reason to stay."""
    plan: Plan = decide(facts)
    if plan.delete is not None:
        pod = plan.delete.pod
        assert not any((pod.deleting, pod.ran, pod.gated, pod.owner is None, facts.ignored))
        assert facts.webhook
        assert not facts.settles_in
        assert not judge_pod(pod)
    assert decide(facts) == plan


def test_pods_are_told_by_their_controller() -> None:
    """Kind, namespace and name, for logs and events."""
    owner = waiting().owner
    assert owner is not None
    assert owner.owner == Owner("ReplicaSet", "web", "uid-ReplicaSet")
    assert str(owner) == "ReplicaSet default/web"
