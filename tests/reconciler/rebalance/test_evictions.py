"""Which pods go, in which order, and how many at a time."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.model import Cell, NodeFacts, PodFacts, Taint, Toleration
from reconciler.rebalance.evictions import (
    MOST_AT_ONCE,
    MOST_AT_ONCE_PER_NAMESPACE,
    Attempt,
    Candidate,
    Surroundings,
    due,
    judge_pod,
)
from tests.reconciler.rebalance.builders import (
    DEFAULTS,
    PREVENT,
    SIGNAL,
    candidate,
    node,
    owner,
    pod,
    rules,
    signal_taint,
    toleration,
    volume,
    volumes,
)

A1 = node("a1", signal=10, prevent=True)
HOLD = {"zonal_volume_policy": "hold"}


@dataclass(frozen=True)
class Case:
    """A pod on a1, and words of the reason for which it stays; none if it goes."""

    name: str
    pod: PodFacts
    stays: str = ""
    node: NodeFacts = A1
    ignored: frozenset[str] = frozenset()
    volumes: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def _tolerating(*tolerations: Toleration, **special: Any) -> PodFacts:
    return pod(tolerations=tolerations, **special)


KINDS = [
    Case("NR-42 of a Deployment", pod()),
    Case("NR-42 of a StatefulSet", pod(owner=owner("StatefulSet"))),
    Case("NR-42 of a Job", pod(owner=owner("Job"))),
    Case("NR-42 of something unheard of", pod(owner=owner("TidbCluster"))),
    Case("NR-42 Pending, bound", pod(phase="Pending")),
    Case("NR-42 in an unknown phase", pod(phase="Unknown")),
    Case("NR-42 without a phase yet", pod(phase="")),
    Case("NR-42 of a DaemonSet", pod(owner=owner("DaemonSet")), "DaemonSet"),
    Case("NR-42 of a DaemonSet, Pending", pod(owner=owner("DaemonSet"), phase="Pending"), "DaemonSet"),
    Case("NR-42 of a DaemonSet, Failed", pod(owner=owner("DaemonSet"), phase="Failed"), "finished"),
    Case(
        "NR-42 of a DaemonSet, bare pods stay too",
        pod(owner=owner("DaemonSet")),
        "DaemonSet",
        settings={"evict_bare_pods": False},
    ),
    Case("NR-42 static", pod(owner=None, mirror=True), "static"),
    Case("NR-42 static, with an owner", pod(owner=owner("Node"), mirror=True), "static"),
    Case("NR-42 Succeeded", pod(phase="Succeeded"), "finished"),
    Case("NR-42 Failed", pod(phase="Failed"), "finished"),
    Case("NR-42 of a Job, Succeeded", pod(owner=owner("Job"), phase="Succeeded"), "finished"),
    Case("NR-42 terminating", pod(deleting=True), "terminating"),
    Case("NR-42 terminating and Pending", pod(deleting=True, phase="Pending"), "terminating"),
    Case("NR-42 without controller", pod(owner=None)),
    Case(
        "NR-42 without controller, switched off",
        pod(owner=None),
        "evict-bare-pods",
        settings={"evict_bare_pods": False},
    ),
    Case("NR-42 with controller, bare pods stay", pod(), settings={"evict_bare_pods": False}),
    Case("NR-42 in a namespace left alone", pod(), "ebbtide/block=ignore", ignored=frozenset({"default", "x"})),
    Case("NR-42 in another namespace", pod(), ignored=frozenset({"kube-system"})),
    Case("NR-42 in kube-system, which is like any", pod(namespace="kube-system")),
    Case("NR-42 highest priority", pod(priority=2000001000)),
    Case("NR-64 on a node that is not Ready", pod(), node=node("a1", signal=10, prevent=True, ready_for=None)),
    Case("on a cordoned node", pod(), node=node("a1", signal=10, prevent=True, cordoned=True)),
]

S_EXISTS, P_EXISTS = toleration(SIGNAL), toleration(PREVENT)
BACK = "tolerates both"
TOLERATIONS = [
    Case("NR-43 everything", _tolerating(toleration()), BACK),
    Case("NR-43 both keys", _tolerating(S_EXISTS, P_EXISTS), BACK),
    Case("NR-43 only the prevent taint", _tolerating(P_EXISTS)),
    Case("only the signal", _tolerating(S_EXISTS)),
    Case("NR-43 the signal only for NoExecute", _tolerating(P_EXISTS, toleration(SIGNAL, effect="NoExecute"))),
    Case("NR-43 the prevent taint only for one value", _tolerating(S_EXISTS, toleration(PREVENT, "Equal", "true"))),
    Case("nothing", _tolerating()),
    Case("something else", _tolerating(toleration("team"), toleration("node.kubernetes.io/not-ready"))),
    Case("everything with the effect of both", _tolerating(toleration(effect="NoSchedule")), BACK),
    Case("everything with another effect", _tolerating(toleration(effect="NoExecute"))),
    Case(
        "both keys with their effect",
        _tolerating(toleration(SIGNAL, effect="NoSchedule"), toleration(PREVENT, effect="NoSchedule")),
        BACK,
    ),
    Case(
        "the signal by its very value",
        _tolerating(toleration(SIGNAL, "Equal", "rebalance-recommendation-5e1f0c"), P_EXISTS),
        BACK,
    ),
    Case("the signal by another value", _tolerating(toleration(SIGNAL, "Equal", "other"), P_EXISTS)),
    Case("the prevent taint by an empty value", _tolerating(S_EXISTS, toleration(PREVENT, "Equal", ""))),
    Case("an operator nobody knows", _tolerating(S_EXISTS, toleration(PREVENT, "Gt", "0"))),
    Case("many, two of which fit", _tolerating(toleration("a"), S_EXISTS, toleration("b"), P_EXISTS), BACK),
    Case(
        "both keys, before the prevent taint is there",
        _tolerating(S_EXISTS, P_EXISTS),
        BACK,
        node=node("a1", signal=10),
    ),
    Case(
        "the prevent taint by an empty value, before it is there",
        _tolerating(S_EXISTS, toleration(PREVENT, "Equal", "")),
        node=node("a1", signal=10),
    ),
    Case(
        "only the signal, before the prevent taint is there",
        _tolerating(S_EXISTS),
        node=node("a1", signal=10),
    ),
    Case(
        "one of two signal taints is not tolerated",
        _tolerating(toleration(SIGNAL, effect="NoSchedule"), P_EXISTS),
        node=node("a1", taints=[signal_taint()], signal=signal_taint(effect="NoExecute"), prevent=True),
    ),
    Case(
        "both of two signal taints are tolerated",
        _tolerating(S_EXISTS, P_EXISTS),
        BACK,
        node=node("a1", taints=[signal_taint()], signal=signal_taint(effect="NoExecute"), prevent=True),
    ),
    Case(
        "foreign taints do not matter",
        _tolerating(S_EXISTS, P_EXISTS),
        BACK,
        node=node("a1", taints=[Taint("team", "x", "NoSchedule")], signal=10, prevent=True),
    ),
    Case(
        "a DaemonSet's pod that tolerates everything", _tolerating(toleration(), owner=owner("DaemonSet")), "DaemonSet"
    ),
]

IN_A, IN_B, IN_BOTH = volume("pv-a", "a"), volume("pv-b", "b"), volume("pv-ab", "a", "b")
ANYWHERE = volume("pv-nfs")
LOCAL = replace(volume("pv-local"), hosts=frozenset({"a1"}))
ELSEWHERE = replace(volume("pv-local"), hosts=frozenset({"a2"}))
CLAIMING = pod(claims=("data",))
VOLUMES = [
    Case("NR-54 by default its volume does not hold a pod", CLAIMING, volumes=volumes(data=IN_A)),
    Case("NR-54 hold", CLAIMING, "pv-a", volumes=volumes(data=IN_A), settings=HOLD),
    Case("NR-54 an unbound claim does not hold", CLAIMING, settings=HOLD),
    Case("a volume in both zones does not hold", CLAIMING, volumes=volumes(data=IN_BOTH), settings=HOLD),
    Case("a volume that is everywhere does not hold", CLAIMING, volumes=volumes(data=ANYWHERE), settings=HOLD),
    Case("a volume on the node's own disk holds", CLAIMING, "on node a1", volumes=volumes(data=LOCAL), settings=HOLD),
    Case("another node's disk does not hold", CLAIMING, volumes=volumes(data=ELSEWHERE), settings=HOLD),
    Case("a volume of another zone does not hold", CLAIMING, volumes=volumes(data=IN_B), settings=HOLD),
    Case("a pod without volumes is not held", pod(), volumes=volumes(data=IN_A), settings=HOLD),
    Case("another pod's claim does not hold", pod(claims=("mine",)), volumes=volumes(data=IN_A), settings=HOLD),
    Case(
        "another namespace's claim does not hold",
        pod(namespace="x", claims=("data",)),
        volumes=volumes(data=IN_A),
        settings=HOLD,
    ),
    Case(
        "one of several claims holds",
        pod(claims=("logs", "data")),
        "pv-a",
        volumes=volumes(logs=ANYWHERE, data=IN_A),
        settings=HOLD,
    ),
    Case(
        "NR-54 on a node that is not Ready nothing is held",
        CLAIMING,
        node=node("a1", signal=10, prevent=True, ready_for=None),
        volumes=volumes(data=IN_A),
        settings=HOLD,
    ),
    Case(
        "on a node that has lost its zone nothing is held",
        CLAIMING,
        node=replace(A1, cell=None),
        volumes=volumes(data=IN_A),
        settings=HOLD,
    ),
]


@pytest.mark.parametrize("case", [*KINDS, *TOLERATIONS, *VOLUMES], ids=lambda case: case.name)
def test_a_pod_goes_unless_there_is_a_reason(case: Case) -> None:
    """And the reason says which."""
    around = Surroundings(case.node, case.ignored, case.volumes)
    reason = judge_pod(case.pod, around, rules(**case.settings))
    assert bool(reason) is bool(case.stays)
    assert case.stays in reason


# --- order ------------------------------------------------------------------------------------------------------


def _asked(
    *candidates: Candidate,
    attempts: Mapping[str, Attempt] | None = None,
    leaving: Mapping[str, int] | None = None,
    now: float = 100.0,
    **settings: Any,
) -> list[str]:
    picked = due(candidates, attempts or {}, leaving or {}, rules(**settings), now)
    return [each.pod.name for each in picked.now]


def _many(count: int, name: str = "p", **special: Any) -> list[Candidate]:
    """Pods spread over so many namespaces that only the limit on all of them matters."""
    return [candidate(pod(f"{name}{n:03}", namespace=f"ns{n % 20}", **special)) for n in range(count)]


def test_the_important_pods_go_last() -> None:
    """NR-44: by priority, an idle worker before a busy one."""
    pods = [
        pod("important", priority=1000),
        pod("busy", busy=True, pool="shared"),
        pod("idle", pool="shared"),
        pod("batch", priority=-10),
    ]
    assert _asked(*map(candidate, pods)) == ["batch", "idle", "busy", "important"]


def test_the_node_that_was_signalled_first_is_emptied_first() -> None:
    """It is likely to be the first to be taken."""
    late, early = candidate(pod("late", priority=-10), since=200), candidate(pod("early"), since=100)
    assert _asked(late, early) == ["early", "late"]


def test_names_settle_a_tie() -> None:
    """So that equal input gives equal requests."""
    assert _asked(*map(candidate, [pod("b"), pod("a"), pod("c", namespace="aaa")])) == ["c", "a", "b"]


def test_our_own_pod_goes_when_no_other_is_left_to_ask() -> None:
    """NR-42: with it goes whoever hears the answers."""
    own, other = candidate(pod("own", priority=-10), own=True), candidate(pod("other"))
    assert _asked(own, other) == ["other"]
    assert _asked(own, other, attempts={"uid-other": Attempt(in_flight=True)}) == []
    assert _asked(own, other, attempts={"uid-other": Attempt(accepted=True)}) == ["own"]
    assert _asked(own) == ["own"]


def test_our_own_pod_does_not_wait_for_a_budget_that_refuses_for_ever() -> None:
    """Its node goes away all the same; every other pod was asked, and the next leader goes on."""
    own, refused = candidate(pod("own"), own=True), candidate(pod("other"))
    assert _asked(own, refused, attempts={"uid-other": Attempt(failures=3, retry_at=105)}) == ["own"]


# --- retries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "asked"),
    [
        pytest.param(None, True, id="never asked"),
        pytest.param(Attempt(), True, id="forgotten"),
        pytest.param(Attempt(in_flight=True), False, id="in flight"),
        pytest.param(Attempt(accepted=True), False, id="accepted"),
        pytest.param(Attempt(accepted=True, failures=5), False, id="accepted at last"),
        pytest.param(Attempt(failures=1, retry_at=100.001), False, id="its retry is a moment ahead"),
        pytest.param(Attempt(failures=1, retry_at=100), True, id="its retry is due"),
        pytest.param(Attempt(failures=900, retry_at=1), True, id="NR-45 refused however often"),
    ],
)
def test_a_pod_is_asked_when_it_is_its_time(attempt: Attempt | None, asked: bool) -> None:
    """Never while an answer is awaited, never again after a yes."""
    attempts = {} if attempt is None else {"uid-p1": attempt}
    assert _asked(candidate(pod()), attempts=attempts) == (["p1"] if asked else [])


def test_a_refused_pod_does_not_hold_up_the_others() -> None:
    """NR-45: they go at once."""
    pods = [candidate(pod(f"p{n}", namespace=f"ns{n % 4}")) for n in range(1, 21)]
    refused = {"uid-p1": Attempt(failures=1, retry_at=110)}
    assert sorted(_asked(*pods, attempts=refused)) == sorted(f"p{n}" for n in range(2, 21))


def test_the_next_look_is_at_the_next_retry() -> None:
    """And without any there is none: answers and events wake it."""
    pods = [candidate(pod(name)) for name in ("p1", "p2", "p3")]
    attempts = {
        "uid-p1": Attempt(1, retry_at=112),
        "uid-p2": Attempt(1, retry_at=107),
        "uid-p3": Attempt(accepted=True),
    }
    assert due(pods, attempts, {}, DEFAULTS, 100.0).next_in == 7
    assert due(pods[2:], attempts, {}, DEFAULTS, 100.0).next_in is None


def test_another_pod_of_the_name_is_another_pod() -> None:
    """NR-49: what was answered for one UID says nothing about the next."""
    again = replace(pod("web-0"), uid="uid-2")
    assert _asked(candidate(again), attempts={"uid-web-0": Attempt(failures=1, retry_at=900)}) == ["web-0"]


def test_first_requests_go_before_repeated_ones() -> None:
    """Else pods that are refused for ever keep the places from those behind them."""
    refused = {f"uid-p{n:03}": Attempt(failures=1, retry_at=90 - n) for n in range(40)}
    asked = _asked(*_many(40), candidate(pod("new", priority=1000)), attempts=refused)
    assert asked[0] == "new"
    assert asked[1:4] == ["p039", "p038", "p037"]


# --- limits -----------------------------------------------------------------------------------------------------


def test_only_so_many_are_asked_at_once() -> None:
    """What the API server takes without getting slower."""
    assert len(_asked(*_many(100))) == MOST_AT_ONCE
    attempts = {f"uid-p{n:03}": Attempt(in_flight=True) for n in range(30)}
    assert _asked(*_many(100), attempts=attempts) == ["p040", "p060"]


def test_one_namespace_does_not_take_all_places() -> None:
    """Pods of one budget are serialised by the API server, and a budget lies in one namespace."""
    crowd = [candidate(pod(f"p{n:02}")) for n in range(20)]
    other = candidate(pod("other", namespace="zz", priority=5))
    assert _asked(*crowd, other) == [*(f"p{n:02}" for n in range(MOST_AT_ONCE_PER_NAMESPACE)), "other"]
    attempts = {f"uid-p{n:02}": Attempt(in_flight=True) for n in range(6)}
    assert _asked(*crowd, attempts=attempts) == ["p06", "p07"]


@pytest.mark.parametrize(
    ("limit", "in_flight", "leaving", "asked"),
    [(5, 0, 0, 5), (5, 0, 3, 2), (5, 2, 0, 3), (5, 2, 2, 1), (5, 2, 3, 0), (5, 0, 9, 0), (1, 0, 0, 1), (0, 0, 50, 8)],
)
def test_a_group_s_limit_counts_what_is_on_its_way(limit: int, in_flight: int, leaving: int, asked: int) -> None:
    """NR-53: accepted and not yet gone, and what may be accepted any moment; 0 is no limit."""
    pods = [candidate(pod(f"p{n:02}")) for n in range(20)]
    attempts = {f"uid-p{n:02}": Attempt(in_flight=True) for n in range(in_flight)}
    assert len(_asked(*pods, attempts=attempts, leaving={"g": leaving}, max_evictions_in_flight=limit)) == asked


def test_a_refused_pod_takes_no_place() -> None:
    """NR-53: it is not on its way."""
    pods = [candidate(pod(f"p{n}")) for n in range(9)]
    attempts = {f"uid-p{n}": Attempt(failures=1, retry_at=200) for n in range(5)}
    assert _asked(*pods, attempts=attempts, max_evictions_in_flight=3) == ["p5", "p6", "p7"]


def test_each_group_has_its_own_limit() -> None:
    """NR-53: a crowded group does not hold up another."""
    pods = [candidate(pod(f"g{n}")) for n in range(4)] + [candidate(pod(f"h{n}"), group="h") for n in range(4)]
    assert _asked(*pods, leaving={"g": 2, "x": 9}, max_evictions_in_flight=2) == ["h0", "h1"]


# --- laws -------------------------------------------------------------------------------------------------------


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Candidate], dict[str, Attempt], Counter[str]]:
    """Pods of two groups and a few namespaces, with whatever may be known about them."""
    pods, attempts = [], {}
    for number in range(draw(st.integers(0, 60))):
        each = candidate(
            pod(f"p{number}", namespace=draw(st.sampled_from("xyz")), priority=draw(st.integers(-1, 1))),
            group=draw(st.sampled_from("gh")),
            since=draw(st.sampled_from([1.0, 2.0])),
            own=number == 7,
        )
        attempt = draw(
            st.sampled_from(
                [None, None, Attempt(in_flight=True), Attempt(accepted=True), Attempt(1, 99.0), Attempt(1, 101.0)]
            )
        )
        pods.append(each)
        if attempt is not None:
            attempts[each.pod.uid] = attempt
    leaving = Counter(each.cell.group for each in pods if attempts.get(each.pod.uid) == Attempt(accepted=True))
    return pods, attempts, leaving


WORLDS = worlds()


@given(WORLDS, st.integers(0, 12))
def test_no_limit_is_ever_exceeded(world: tuple[list[Candidate], dict[str, Attempt], Counter[str]], most: int) -> None:
    """Requests in all and by namespace, pods on their way by group."""
    pods, attempts, leaving = world
    picked = due(pods, attempts, leaving, rules(max_evictions_in_flight=most), 100.0).now
    busy = [each for each in pods if attempts.get(each.pod.uid, Attempt()).in_flight]
    assert not picked or len(busy) + len(picked) <= MOST_AT_ONCE
    for name, count in Counter(each.pod.namespace for each in picked).items():
        assert count + sum(each.pod.namespace == name for each in busy) <= MOST_AT_ONCE_PER_NAMESPACE
    for name, count in Counter(each.cell.group for each in picked).items():
        assert most == 0 or count + leaving[name] + sum(each.cell.group == name for each in busy) <= most


@given(WORLDS, st.integers(0, 12))
def test_nobody_is_asked_twice_or_too_early(
    world: tuple[list[Candidate], dict[str, Attempt], Counter[str]], most: int
) -> None:
    """Not while an answer is awaited, not after a yes, not before the retry is due."""
    pods, attempts, leaving = world
    picked = due(pods, attempts, leaving, rules(max_evictions_in_flight=most), 100.0).now
    assert len({each.pod.uid for each in picked}) == len(picked)
    for each in picked:
        attempt = attempts.get(each.pod.uid, Attempt())
        assert not attempt.in_flight
        assert not attempt.accepted
        assert attempt.retry_at <= 100.0


@given(WORLDS, st.integers(0, 12))
def test_whoever_is_passed_over_has_met_a_limit(
    world: tuple[list[Candidate], dict[str, Attempt], Counter[str]], most: int
) -> None:
    """Among pods that were never asked, of one group and namespace, the order holds; no place is left free."""
    pods, attempts, leaving = world
    picked = due(pods, attempts, leaving, rules(max_evictions_in_flight=most), 100.0).now
    new = [each for each in pods if each.pod.uid not in attempts and not each.own]
    for passed in (each for each in new if each not in picked):
        rivals = [each for each in picked if each in new and (each.cell, each.pod.namespace) == _place(passed)]
        assert all(each.rank < passed.rank for each in rivals)
        on_their_way = [*picked, *(each for each in pods if attempts.get(each.pod.uid, Attempt()).in_flight)]
        assert (
            len(on_their_way) >= MOST_AT_ONCE
            or sum(each.pod.namespace == passed.pod.namespace for each in on_their_way) >= MOST_AT_ONCE_PER_NAMESPACE
            or 0 < most <= leaving[passed.cell.group] + sum(each.cell == passed.cell for each in on_their_way)
        )


def _place(each: Candidate) -> tuple[Cell, str]:
    return each.cell, each.pod.namespace


@given(WORLDS)
def test_the_order_of_what_is_known_says_nothing(
    world: tuple[list[Candidate], dict[str, Attempt], Counter[str]],
) -> None:
    """Equal input, equal requests."""
    pods, attempts, leaving = world
    assert due(pods, attempts, leaving, DEFAULTS, 100.0) == due(pods[::-1], attempts, leaving, DEFAULTS, 100.0)


@pytest.mark.parametrize("refused", [0, 7, 8, 100, 400])
@pytest.mark.parametrize("most", [0, 1, 5])
def test_nobody_starves_behind_pods_that_are_refused_for_ever(refused: int, most: int) -> None:
    """Also the least of many pods in one namespace is asked, although the others come back every ten seconds."""
    stubborn = [candidate(pod(f"no{n:03}", priority=-1)) for n in range(refused)]
    willing = [candidate(pod(f"yes{n}", priority=1000)) for n in range(10)]
    attempts: dict[str, Attempt] = {}
    left, second = {each.pod.uid for each in willing}, 0
    while left and second < 2 * (refused + 20):
        candidates = [*stubborn, *(each for each in willing if each.pod.uid in left)]
        for each in due(candidates, attempts, {}, rules(max_evictions_in_flight=most), float(second)).now:
            if each in willing:
                left.discard(each.pod.uid)
            else:
                attempts[each.pod.uid] = Attempt(failures=1, retry_at=second + 10.0)
        second += 1
    assert not left


def test_a_refused_pod_is_asked_again_among_many_refused_ones() -> None:
    """NR-45: a budget that gives way to one of four hundred lets that one go."""
    stubborn = [candidate(pod(f"no{n:03}")) for n in range(400)]
    attempts: dict[str, Attempt] = {}
    asked: Counter[str] = Counter()
    for second in range(200):
        for each in due(stubborn, attempts, {}, DEFAULTS, float(second)).now:
            attempts[each.pod.uid] = Attempt(failures=1, retry_at=second + 10.0)
            asked[each.pod.uid] += 1
    assert min(asked.values()) >= 3
    assert len(asked) == 400
