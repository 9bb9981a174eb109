"""What becomes of a worker: a table of named cases, and laws for all others. `now` is 1000 seconds."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.scaler.dedicated.decide import SHORTEST, Facts, Rules, Stage, Trouble, decide
from reconciler.scaler.metrics import Cleanup, WorkerState

NOW = 1000.0
RULES = Rules(idle_for=600.0, start_timeout=300.0)
STUCK = replace(RULES, stuck_for=500.0)


def ready(**facts: Any) -> Facts:
    """A pod that is ready, has answered, and lists no running task since 100 s."""
    return Facts(**{"stage": Stage.READY, "used_at": 0.0, "known": True, "empty_since": 900.0, **facts})


def silent(**facts: Any) -> Facts:
    """A pod that is ready and has not answered for 200 s."""
    return Facts(**{"stage": Stage.READY, "used_at": 0.0, "failing_since": 800.0, **facts})


def starting(**facts: Any) -> Facts:
    """A pod that has never been ready, for which a client asked 200 s ago."""
    return Facts(**{"stage": Stage.STARTING, "used_at": 800.0, **facts})


CASES: dict[str, tuple[Facts, WorkerState, Cleanup | None, float | None]] = {
    # --- it runs a task
    "WS-28 a task keeps it": (ready(running=True, empty_since=None), WorkerState.BUSY, None, None),
    "a task keeps it whatever it was promised": (
        ready(running=True, empty_since=None, promised_until=2000.0),
        WorkerState.BUSY,
        None,
        None,
    ),
    "a task keeps it although the pod is not ready": (
        ready(stage=Stage.STARTING, running=True, empty_since=None),
        WorkerState.BUSY,
        None,
        None,
    ),
    # --- it runs none
    "WS-26 idle for too short": (ready(empty_since=400.001), WorkerState.IDLE, None, 0.001),
    "WS-26 idle for long enough, the boundary included": (
        ready(empty_since=400.0),
        WorkerState.IDLE,
        Cleanup.IDLE,
        None,
    ),
    "a client that asked since counts": (ready(empty_since=100.0, used_at=700.0), WorkerState.IDLE, None, 300.0),
    "WS-27 promised for longer": (ready(empty_since=100.0, promised_until=1100.0), WorkerState.READY, None, 100.0),
    "a promise that is over": (ready(empty_since=400.0, promised_until=1000.0), WorkerState.IDLE, Cleanup.IDLE, None),
    "WS-31 a client waits": (ready(empty_since=100.0, waited_for=True), WorkerState.READY, None, None),
    "an idle one that is not ready any more": (
        ready(stage=Stage.LOST, empty_since=400.0),
        WorkerState.IDLE,
        Cleanup.IDLE,
        None,
    ),
    # --- it does not say
    "WS-29 silent": (silent(), WorkerState.UNKNOWN, None, None),
    "silent for a moment": (silent(failing_since=970.0), WorkerState.UNKNOWN, None, 30.0),
    "ready and not asked yet": (silent(failing_since=None), WorkerState.STARTING, None, None),
    "silent after a task": (silent(ran=True, used_at=-1e6), WorkerState.UNKNOWN, None, None),
    "it was ready, and is silent": (silent(stage=Stage.LOST, used_at=-1e6), WorkerState.UNKNOWN, None, None),
    # --- it was never ready
    "WS-30 too early": (starting(), WorkerState.STARTING, None, 700.0),
    "WS-30 nobody has asked for long enough": (
        starting(used_at=100.0),
        WorkerState.STARTING,
        Cleanup.NEVER_READY,
        None,
    ),
    "WS-30 no pod": (
        starting(stage=Stage.ABSENT, used_at=100.0),
        WorkerState.STARTING,
        Cleanup.POD_GONE,
        None,
    ),
    "never ready, promised before a restart of ours": (
        starting(used_at=100.0, promised_until=1050.0),
        WorkerState.STARTING,
        None,
        50.0,
    ),
    "never ready, a client waits": (starting(used_at=-1e6, waited_for=True), WorkerState.STARTING, None, None),
    "never ready although it answers": (
        starting(used_at=100.0, known=True, empty_since=0.0),
        WorkerState.STARTING,
        Cleanup.NEVER_READY,
        None,
    ),
    "its pod is away, and a task may live": (
        starting(stage=Stage.ABSENT, used_at=-1e6, ran=True),
        WorkerState.UNKNOWN,
        None,
        None,
    ),
    # --- it goes
    "on its way out": (ready(empty_since=0.0, ending=True, cancelled=True), WorkerState.ENDING, None, None),
    "WS-40 cancelled while it runs": (
        ready(running=True, empty_since=None, cancelled=True),
        WorkerState.ENDING,
        Cleanup.CANCELLED,
        None,
    ),
    "WS-40 cancelled while it is silent": (silent(cancelled=True), WorkerState.ENDING, Cleanup.CANCELLED, None),
}


@pytest.mark.parametrize("case", CASES)
def test_table(case: str) -> None:
    facts, state, remove, again = CASES[case]
    verdict = decide(facts, RULES, NOW)
    assert (verdict.state, verdict.remove) == (state, remove)
    assert verdict.look_again_in == (None if again is None else pytest.approx(again))
    assert verdict.reason


@pytest.mark.parametrize(
    ("facts", "remove"),
    [
        pytest.param(ready(running=True, empty_since=None, progress_at=500.0), Cleanup.STUCK, id="boundary"),
        pytest.param(ready(running=True, empty_since=None, progress_at=500.1), None, id="it has moved since"),
        pytest.param(ready(running=True, empty_since=None, used_at=600.0), None, id="its client has asked since"),
        pytest.param(ready(running=True, empty_since=None, waited_for=True), None, id="a client waits"),
        pytest.param(silent(ran=True), None, id="unknown is not stuck"),
    ],
)
def test_ws_28_a_task_that_does_not_move_for_long_enough_keeps_nothing(facts: Facts, remove: Cleanup | None) -> None:
    assert decide(facts, STUCK, NOW).remove is remove


@pytest.mark.parametrize(
    ("facts", "trouble"),
    [
        (silent(), Trouble.STATUS_UNKNOWN),
        (silent(failing_since=970.0), None),
        (starting(), None),
        (starting(unschedulable="0/3 nodes are available: 3 Insufficient cpu."), Trouble.NO_CAPACITY),
        (starting(unschedulable="1 node(s) had volume node affinity conflict"), Trouble.ZONAL_VOLUME_BLOCKED),
        (
            starting(unschedulable="2 node(s) didn't match PersistentVolume's node affinity"),
            Trouble.ZONAL_VOLUME_BLOCKED,
        ),
        (starting(ran=True, unschedulable="0/3 nodes are available"), Trouble.NO_CAPACITY),
        (ready(), None),
    ],
)
def test_what_an_operator_is_told(facts: Facts, trouble: Trouble | None) -> None:
    assert decide(facts, RULES, NOW).trouble is trouble


INSTANTS = st.floats(-5000.0, 5000.0)
FACTS = st.builds(
    Facts,
    stage=st.sampled_from(Stage),
    used_at=INSTANTS,
    promised_until=INSTANTS,
    waited_for=st.booleans(),
    ending=st.booleans(),
    cancelled=st.booleans(),
    ran=st.booleans(),
    known=st.booleans(),
    running=st.booleans(),
    progress_at=INSTANTS,
    empty_since=st.none() | INSTANTS,
    failing_since=st.none() | INSTANTS,
)


@given(FACTS)
def test_unknown_is_never_unused(facts: Facts) -> None:
    """Of a pod that is there and was ready, and of one that ran a task, nothing is removed that does not say so."""
    verdict = decide(replace(facts, known=False, running=False, cancelled=False), STUCK, NOW)
    if facts.stage in (Stage.READY, Stage.LOST) or facts.ran:
        assert verdict.remove is None


@given(FACTS)
def test_whoever_waits_or_was_promised_keeps_it(facts: Facts) -> None:
    kept = replace(facts, cancelled=False)
    assert decide(replace(kept, waited_for=True), STUCK, NOW).remove is None
    promised = decide(replace(kept, promised_until=NOW + 1, running=False), STUCK, NOW)
    assert promised.remove is None


@given(FACTS)
def test_a_running_task_keeps_it_without_a_limit(facts: Facts) -> None:
    verdict = decide(replace(facts, known=True, running=True, cancelled=False), RULES, NOW)
    assert verdict.remove is None


@given(FACTS)
def test_what_is_to_be_looked_at_again_is_decided_then_or_later_and_never_in_no_time(facts: Facts) -> None:
    """Nothing that is kept now is removed earlier than the look that was announced."""
    verdict = decide(facts, STUCK, NOW)
    if verdict.look_again_in is None or verdict.remove is not None:
        return
    assert verdict.look_again_in >= SHORTEST
    assert decide(facts, STUCK, NOW + verdict.look_again_in - 2 * SHORTEST).remove is None


@given(FACTS, INSTANTS)
def test_nothing_is_kept_for_ever_once_it_has_said_that_it_runs_nothing(facts: Facts, since: float) -> None:
    said = replace(facts, known=True, running=False, empty_since=since)
    over = replace(said, ran=False, waited_for=False, ending=False)
    assert decide(over, RULES, 1e6).remove is not None
