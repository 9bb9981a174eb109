"""How far the pool may shrink, and why not further."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.scaler.shared.decide import desired
from reconciler.scaler.shared.facts import PodState, Pool, PoolPod, Rules
from reconciler.scaler.shared.shrink import Keep, shrink
from tests.reconciler.scaler.shared.builders import DEFAULTS, LONG, idle, pod, pool, starting, unknown

CASES = {
    "WS-50 the last pod is busy": (pool(idle(), *(2 for _ in range(8)), 1), DEFAULTS, 10, Keep.RUNNING),
    "WS-50 only the first is busy": (pool(3, idle(), idle(), idle(), idle()), DEFAULTS, 1, Keep.NEEDED),
    "WS-50 the third of five is busy": (pool(idle(), idle(), 1, idle(), idle()), DEFAULTS, 3, Keep.RUNNING),
    "WS-50 a second too early": (pool(idle(), idle(), idle(599)), DEFAULTS, 3, Keep.NOT_IDLE),
    "WS-50 at the very second": (pool(idle(600), idle(600), idle(600)), DEFAULTS, 0, None),
    "WS-50 an ended task is still listed": (pool(idle(), idle(), pod(ended=1)), DEFAULTS, 3, Keep.ENDED),
    "WS-50 the last is not ready": (
        pool(idle(), idle(), pod(state=PodState.NOT_READY, good=False, lasting=LONG)),
        DEFAULTS,
        3,
        Keep.NOT_READY,
    ),
    "WS-50 the last is unknown": (pool(idle(), idle(), unknown()), DEFAULTS, 3, Keep.UNKNOWN),
    "WS-50 a pod for the load stays beside the busy one": (
        pool(20, idle(), idle(), idle()),
        DEFAULTS,
        2,
        Keep.NEEDED,
    ),
    "WS-50 the minimum stays": (pool(idle(), idle()), replace(DEFAULTS, least=1), 1, Keep.NEEDED),
    "WS-50 a promise keeps its pod": (pool(pod(reserved=1), idle()), DEFAULTS, 1, Keep.NEEDED),
    "WS-50 unknown, last known with two": (pool(unknown(2), idle(), idle(), idle()), DEFAULTS, 1, Keep.NEEDED),
    "WS-51 no idle time still respects a promise": (
        pool(0, pod(reserved=1)),
        replace(DEFAULTS, idle_for=0.0),
        2,
        Keep.RESERVED,
    ),
    "without an idle time a pod still has to be seen empty": (
        pool(pod()),
        replace(DEFAULTS, idle_for=0.0),
        1,
        Keep.NOT_IDLE,
    ),
    "without an idle time it goes when it is": (pool(idle(0)), replace(DEFAULTS, idle_for=0.0), 0, None),
    "WS-49 nothing goes while a task waits": (pool(24, starting(LONG), waiting=1), DEFAULTS, 2, Keep.WAITED_FOR),
    "WS-59 an idle pod in a blocked zone may go": (pool(3, idle(state=PodState.BLOCKED)), DEFAULTS, 1, Keep.NEEDED),
    "WS-58 an idle pod on a cordoned node may go": (pool(3, idle(state=PodState.CORDONED)), DEFAULTS, 1, Keep.NEEDED),
    "a pod on its way out stays counted": (
        pool(3, idle(state=PodState.ENDING, good=False)),
        DEFAULTS,
        2,
        Keep.NOT_READY,
    ),
    "WS-64 a tail that never ran": (pool(idle(), idle(), idle(), starting(3600)), DEFAULTS, 4, Keep.NEVER_RAN),
    "WS-64 a tail that never ran, for too long": (
        pool(idle(), idle(), idle(), starting(3600)),
        replace(DEFAULTS, stuck_for=1800),
        0,
        None,
    ),
    "WS-64 not yet": (pool(idle(), starting(1799)), replace(DEFAULTS, stuck_for=1800), 2, Keep.NEVER_RAN),
    "WS-64 never with a promise": (
        pool(idle(), starting(3600, reserved=1)),
        replace(DEFAULTS, stuck_for=1800),
        2,
        Keep.RESERVED,
    ),
    "WS-65 pods that quota refuses": (
        pool(idle(), pod(state=PodState.MISSING, good=False)),
        DEFAULTS,
        2,
        Keep.NEVER_RAN,
    ),
    "WS-67 a pool that is switched off drains": (
        pool(5, idle(), idle()),
        replace(DEFAULTS, enabled=False, least=0),
        1,
        Keep.NEEDED,
    ),
    "WS-69 a paused pool stays": (pool(idle(), idle(), paused=True), DEFAULTS, 2, Keep.PAUSED),
    "WS-70 raised by hand": (pool(3, idle(), idle()), DEFAULTS, 1, Keep.NEEDED),
    "steps towards a maximum that was lowered": (
        pool(1, 1, 1, 1, 1, idle()),
        replace(DEFAULTS, most=3),
        5,
        Keep.RUNNING,
    ),
    "an empty pool": (pool(), DEFAULTS, 0, None),
}


@pytest.mark.parametrize(("state", "rules", "replicas", "keep"), CASES.values(), ids=CASES.keys())
def test_the_tail_goes_as_far_as_nothing_is_lost(state: Pool, rules: Rules, replicas: int, keep: Keep | None) -> None:
    plan = shrink(state, rules)
    assert plan.replicas == replicas
    assert (plan.kept and plan.kept.keep) == keep


def test_the_plan_says_when_to_look_again() -> None:
    kept = shrink(pool(idle(), idle(590)), DEFAULTS).kept
    assert kept is not None
    assert (kept.ordinal, kept.after) == (1, 10)


@pytest.mark.parametrize(("replicas", "ordinals"), [(1, [1, 2]), (3, [])])
def test_the_plan_names_what_goes(replicas: int, ordinals: list[int]) -> None:
    state = pool(*(3 if n < replicas else idle() for n in range(3)))
    assert list(shrink(state, DEFAULTS).removes(state)) == ordinals


pods = st.builds(
    PoolPod,
    ordinal=st.just(0),
    state=st.sampled_from(PodState),
    lasting=st.sampled_from([0.0, 1800.0]),
    running=st.sampled_from([0, 0, 0, 5]),
    reserved=st.sampled_from([0, 0, 0, 1]),
    ended=st.sampled_from([0, 0, 1]),
    good=st.booleans(),
    idle=st.sampled_from([None, 0.0, 600.0, 700.0]),
)
rules = st.builds(Rules, least=st.integers(0, 2), per_pod=st.integers(1, 16), stuck_for=st.sampled_from([0.0, 1800.0]))


@given(st.lists(pods, max_size=6), rules)
def test_only_pods_without_anything_on_them_go(pods: list[PoolPod], rules: Rules) -> None:
    state = pool(*pods)
    plan = shrink(state, rules)
    assert plan.replicas >= min(state.replicas, max(rules.least, desired(state.total, rules)))
    for ordinal in plan.removes(state):
        gone = state.pods[ordinal]
        assert gone.load == 0
        assert (gone.never_ran and gone.lasting >= rules.stuck_for > 0) or (
            gone.good and gone.ended == 0 and gone.idle is not None and gone.idle >= rules.idle_for
        )


@given(st.lists(pods, max_size=6), rules)
def test_the_walk_ends_at_a_pod_that_may_not_go(pods: list[PoolPod], rules: Rules) -> None:
    state = pool(*pods)
    plan = shrink(state, rules)
    assert (plan.kept is None) == (plan.replicas == 0)
    assert plan.kept is None or plan.kept.ordinal == plan.replicas - 1


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (1, "1 task runs there"),
        (2, "2 tasks run there"),
        (pod(reserved=1), "1 task has been sent there and not been seen"),
        (pod(reserved=2), "2 tasks have been sent there and not been seen"),
        (pod(ended=1), "it still lists 1 ended task"),
        (pod(ended=2), "it still lists 2 ended tasks"),
    ],
)
def test_what_keeps_the_last_pod_is_said_with_its_number(tail: PoolPod | int, why: str) -> None:
    kept = shrink(pool(idle(), idle(), tail), DEFAULTS).kept
    assert kept is not None
    assert kept.reason == why
