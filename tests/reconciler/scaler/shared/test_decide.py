"""Which pod a task gets, and how large the pool has to be."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.scaler.shared.decide import Given, Lack, allot, desired, size
from reconciler.scaler.shared.facts import OVERDUE, PodState, Pool, PoolPod, Rules
from tests.reconciler.scaler.shared.builders import DEFAULTS, GB, LONG, MB, missing, pod, pool, starting, unknown

HARD = replace(DEFAULTS, hard_cap=True)


@pytest.mark.parametrize(
    ("total", "pods"),
    [(0, 0), (1, 1), (16, 1), (17, 2), (32, 2), (33, 3), (48, 3), (49, 4), (1024, 64), (1025, 64)],
)
def test_a_pod_is_wanted_for_every_sixteen_tasks_within_the_bounds(total: int, pods: int) -> None:
    assert desired(total, DEFAULTS) == pods


def test_the_minimum_is_wanted_without_any_task() -> None:
    assert desired(0, replace(DEFAULTS, least=3)) == 3


CHOICES = {
    "WS-44 the first of three empty pods": (pool(3, 0, 0, waiting=1), DEFAULTS, [Given(0)]),
    "WS-44 the first below sixteen": (pool(16, 5, 0, waiting=1), DEFAULTS, [Given(1)]),
    "WS-44 the least loaded when all have sixteen": (pool(20, 17, 18, waiting=1), DEFAULTS, [Given(1)]),
    "WS-44 the lowest of equals": (pool(16, 16, waiting=1), DEFAULTS, [Given(0)]),
    "WS-44 the last slot below the cap": (pool(24, 23, waiting=1), DEFAULTS, [Given(1)]),
    "WS-44 beyond the soft cap at the maximum": (
        pool(24, 24, 24, waiting=1),
        replace(DEFAULTS, most=3),
        [Given(0, beyond=True)],
    ),
    "WS-44 never beyond a hard cap": (pool(24, 24, 24, waiting=1), replace(HARD, most=3), [Lack.REFUSE]),
    "beyond the cap, too, the least loaded": (
        pool(30, 26, 28, waiting=2),
        replace(DEFAULTS, most=3),
        [Given(1, beyond=True), Given(1, beyond=True)],
    ),
    "promises are load": (pool(pod(10, reserved=6), 2, waiting=1), DEFAULTS, [Given(1)]),
    "WS-54 a burst counts its own tasks": (
        pool(22, 22, waiting=6),
        DEFAULTS,
        [Given(0), Given(1), Given(0), Given(1), Lack.WAIT, Lack.WAIT],
    ),
    "WS-45 a full pool that can grow makes them wait": (pool(24, waiting=1), DEFAULTS, [Lack.WAIT]),
    "nobody is there yet": (pool(waiting=1), DEFAULTS, [Lack.WAIT]),
    "WS-58 only the pod that is fine": (
        pool(
            pod(state=PodState.ENDING),
            pod(state=PodState.NOT_READY, good=False),
            pod(state=PodState.CORDONED),
            4,
            waiting=2,
        ),
        DEFAULTS,
        [Given(3), Given(3)],
    ),
    "WS-59 none in a blocked zone": (pool(pod(3, state=PodState.BLOCKED), 20, waiting=1), DEFAULTS, [Given(1)]),
    "WS-52 none on what is being removed": (pool(24, 0, 0, waiting=1, closing=1), DEFAULTS, [Lack.WAIT]),
    "a pod beyond the replicas takes none": (
        replace(pool(24, 3, waiting=1), replicas=1),
        DEFAULTS,
        [Lack.WAIT],
    ),
    "WS-81 none on a lost node": (
        pool(3, pod(4, state=PodState.LOST, good=False), waiting=1),
        replace(DEFAULTS, least=2),
        [Given(0)],
    ),
    "WS-47 the first of three gets the one slot": (
        pool(23, starting(), waiting=3),
        DEFAULTS,
        [Given(0), Lack.WAIT, Lack.WAIT],
    ),
    "at the maximum a pod that starts is waited for": (
        pool(24, starting(), waiting=1),
        replace(DEFAULTS, most=2),
        [Lack.WAIT],
    ),
    "at the maximum a pod that does not come is not waited for": (
        pool(24, starting(LONG), waiting=1),
        replace(DEFAULTS, most=2),
        [Given(0, beyond=True)],
    ),
    "at the maximum without any usable pod there is only waiting": (
        pool(pod(3, state=PodState.BLOCKED), waiting=1),
        replace(DEFAULTS, most=1),
        [Lack.WAIT],
    ),
    "WS-72 the disk of the first is full": (pool(pod(10, disk=60 * GB), 0, waiting=(2 * GB,)), DEFAULTS, [Given(1)]),
    "WS-72 the only disk is full": (pool(pod(10, disk=60 * GB), waiting=(2 * GB,)), DEFAULTS, [Lack.WAIT]),
    "WS-72 at the maximum disk gives way": (
        pool(pod(10, disk=60 * GB), waiting=(2 * GB,)),
        replace(DEFAULTS, most=1),
        [Given(0)],
    ),
    "disk gives way also where the cap is hard": (
        pool(pod(10, disk=60 * GB), pod(12, disk=59 * GB), waiting=(2 * GB,)),
        replace(HARD, most=2),
        [Given(1)],
    ),
    "disk is filled to the last byte": (pool(pod(10, disk=58 * GB), waiting=(2 * GB,)), DEFAULTS, [Given(0)]),
    "a task without a size needs no disk": (pool(pod(10, disk=64 * GB), waiting=(0,)), DEFAULTS, [Given(0)]),
    "a task larger than a disk gets an empty one": (
        pool(pod(1, disk=3 * GB), 0, waiting=(40 * GB,)),
        DEFAULTS,
        [Given(1)],
    ),
    "a large task keeps no small one waiting": (
        pool(pod(2, disk=60 * GB), waiting=(2 * GB, MB)),
        DEFAULTS,
        [Lack.WAIT, Given(0)],
    ),
    "WS-69 paused: a slot below the cap": (pool(24, 23, waiting=2, paused=True), DEFAULTS, [Given(1), Lack.REFUSE]),
    "WS-69 paused at the maximum: still not beyond the cap": (
        pool(24, waiting=1, paused=True),
        replace(DEFAULTS, most=1),
        [Lack.REFUSE],
    ),
    "WS-65 nobody waits for pods that are refused": (
        pool(missing(OVERDUE), waiting=1, refused="quota"),
        DEFAULTS,
        [Lack.REFUSE],
    ),
    "WS-65 one is waited for that is missing for no known reason": (
        pool(missing(OVERDUE), waiting=1),
        DEFAULTS,
        [Lack.WAIT],
    ),
    "WS-65 one that is only late is waited for": (
        pool(missing(OVERDUE), missing(OVERDUE - 1), waiting=1, refused="quota"),
        DEFAULTS,
        [Lack.WAIT],
    ),
    "WS-65 one that starts is waited for": (
        pool(missing(OVERDUE), starting(), waiting=1, refused="quota"),
        DEFAULTS,
        [Lack.WAIT],
    ),
    "WS-65 a slot of those that are there is waited for": (
        pool(24, missing(OVERDUE), waiting=1, refused="quota"),
        DEFAULTS,
        [Lack.WAIT],
    ),
    "WS-65 at the maximum tasks go beyond the cap rather than wait for what is refused": (
        pool(24, missing(OVERDUE), waiting=1, refused="quota"),
        replace(DEFAULTS, most=2),
        [Given(0, beyond=True)],
    ),
    "WS-69 paused while a pod starts": (pool(24, starting(), waiting=1, paused=True), DEFAULTS, [Lack.WAIT]),
}


@pytest.mark.parametrize(("state", "rules", "answers"), CHOICES.values(), ids=CHOICES.keys())
def test_tasks_get_their_pods(state: Pool, rules: Rules, answers: list[Given | Lack]) -> None:
    assert list(allot(state, rules).answers) == answers


def eight_starting() -> tuple[int | PoolPod, ...]:
    return (24, 24, *(starting() for _ in range(8)))


SIZES = {
    "WS-45 from zero": (pool(waiting=1), DEFAULTS, 1),
    "WS-45 the sixteenth task": (pool(15, waiting=1), DEFAULTS, 1),
    "WS-45 the seventeenth": (pool(16, waiting=1), DEFAULTS, 2),
    "WS-45 the only pod is full": (pool(24, waiting=1), DEFAULTS, 2),
    "WS-45 full pods are fewer than its load says": (pool(24, waiting=1), replace(DEFAULTS, per_pod=32), 2),
    "WS-45 enough is on its way": (pool(*eight_starting(), waiting=1), DEFAULTS, 10),
    "WS-45 three for thirty-nine": (pool(24, starting(LONG), starting(LONG), waiting=15), DEFAULTS, 3),
    "WS-45 never above the maximum": (pool(*(1200 // 64 for _ in range(64)), waiting=1), DEFAULTS, 64),
    "WS-46 a burst": (pool(waiting=40), DEFAULTS, 3),
    "WS-44 both have sixteen": (pool(16, 16, waiting=1), DEFAULTS, 3),
    "WS-44 the last slot is taken": (pool(24, 23, waiting=1), DEFAULTS, 3),
    "WS-59 the only pod is in a blocked zone": (pool(pod(3, state=PodState.BLOCKED), waiting=1), DEFAULTS, 2),
    "WS-59 a blocked zone without traffic": (pool(pod(20, state=PodState.BLOCKED), 5), DEFAULTS, 2),
    "WS-59 a blocked zone at the maximum": (
        pool(pod(3, state=PodState.BLOCKED), waiting=1),
        replace(DEFAULTS, most=1),
        1,
    ),
    "a short silence asks for nothing": (pool(unknown(3, lasting=5), waiting=1), DEFAULTS, 1),
    "a long silence is no capacity": (pool(unknown(3, lasting=LONG), waiting=1), DEFAULTS, 2),
    "WS-66 the minimum without traffic": (pool(0, 0), replace(DEFAULTS, least=3), 3),
    "WS-66 the minimum from zero": (pool(), replace(DEFAULTS, least=2), 2),
    "WS-67 a pool that is switched off does not grow": (pool(40), replace(DEFAULTS, enabled=False), 1),
    "WS-69 a paused pool does not grow": (pool(24, waiting=3, paused=True), DEFAULTS, 1),
    "WS-70 restored to its load": (replace(pool(16, 16, 16, 16), replicas=2), DEFAULTS, 4),
    "WS-70 restored to the last pod with a task": (replace(pool(0, 0, 0, 1), replicas=1), DEFAULTS, 4),
    "growth never lowers": (pool(0, 0, 0, 0, 0), replace(DEFAULTS, most=3), 5),
    "WS-72 the only disk is full": (pool(pod(10, disk=60 * GB), waiting=(2 * GB,)), DEFAULTS, 2),
    "nothing to do": (pool(), DEFAULTS, 0),
    "WS-81 the minimum holds with a lost node": (
        pool(3, pod(4, state=PodState.LOST, good=False)),
        replace(DEFAULTS, least=2),
        2,
    ),
}


@pytest.mark.parametrize(("state", "rules", "target"), SIZES.values(), ids=SIZES.keys())
def test_the_pool_is_made_as_large_as_it_has_to_be(state: Pool, rules: Rules, target: int) -> None:
    assert size(state, rules).target == target


def test_the_unreachable_count_with_what_was_last_known_of_them() -> None:
    assert size(pool(unknown(17)), DEFAULTS).desired == 2


def test_the_reason_for_a_size_is_told() -> None:
    assert size(pool(16, waiting=1), DEFAULTS).why == "17 tasks at 16 a pod"
    assert size(replace(pool(waiting=1), replicas=0), DEFAULTS).why == "1 task at 16 a pod"
    assert size(pool(24, waiting=1), replace(DEFAULTS, per_pod=32)).why == "all usable pods are full"
    full = pool(pod(24, state=PodState.BLOCKED), waiting=1)
    assert size(full, replace(DEFAULTS, most=1)).why == "no usable pod has room and none is starting, at most 1"


pods = st.builds(
    PoolPod,
    ordinal=st.just(0),
    state=st.sampled_from(PodState),
    lasting=st.sampled_from([0.0, 299.0, 300.0, 700.0]),
    running=st.integers(0, 30),
    reserved=st.integers(0, 5),
    disk=st.sampled_from([0, 30 * GB, 64 * GB]),
    idle=st.none(),
)
rules = st.builds(
    Rules,
    least=st.integers(0, 3),
    most=st.integers(3, 8),
    per_pod=st.integers(1, 20),
    soft_cap=st.integers(1, 24),
    hard_cap=st.booleans(),
)
pools = st.builds(
    lambda pods, waiting, paused: replace(pool(*pods, waiting=tuple(waiting)), paused=paused),
    st.lists(pods, max_size=8),
    st.lists(st.sampled_from([0, MB, 2 * GB, 30 * GB]), max_size=40),
    st.booleans(),
)


@given(pools, rules)
def test_a_size_is_within_bounds_and_never_below_what_is_there(state: Pool, rules: Rules) -> None:
    target = size(state, rules).target
    assert state.replicas <= target <= max(rules.most, state.replicas)
    assert state.paused or target >= rules.least


@given(pools, rules)
def test_tasks_are_only_sent_to_usable_pods_and_above_the_cap_only_where_it_may_be(state: Pool, rules: Rules) -> None:
    usable = {pod.ordinal: pod.load for pod in state.usable}
    for answer in allot(state, rules).answers:
        if isinstance(answer, Given):
            assert answer.beyond == (usable[answer.ordinal] >= rules.soft_cap)
            assert not answer.beyond or (state.replicas >= rules.most and not rules.hard_cap and not state.paused)
            usable[answer.ordinal] += 1


@given(pools, rules)
def test_the_pool_that_is_left_has_every_task_once(state: Pool, rules: Rules) -> None:
    allotment = allot(state, rules)
    refused = sum(answer is Lack.REFUSE for answer in allotment.answers)
    assert allotment.pool.total == state.total - refused


@given(pools, rules)
def test_who_waits_has_a_pod_to_wait_for(state: Pool, rules: Rules) -> None:
    """Whoever is left waiting waits for growth, for a pod that starts, or because there is no usable pod at all."""
    if Lack.WAIT in allot(state, rules).answers:
        grows = size(state, rules).target > state.replicas
        coming = any(pod.starting(rules) for pod in state.pods)
        assert grows or coming or (state.replicas >= rules.most and not state.usable) or state.paused
