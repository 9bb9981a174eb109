"""What is remembered of a worker from one look to the next."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.scaler.dedicated.decide import Stage
from reconciler.scaler.dedicated.memory import Heard, Life
from reconciler.scaler.pods import WorkerPod, worker_pod
from reconciler.scaler.status.book import Answer
from reconciler.scaler.task import TaskState
from tests.reconciler.scaler.dedicated.stage import ID1, task
from tests.reconciler.scaler.templates import NAMESPACE

VALID = 35.0
MINE, OTHER = TaskState(ID1, progress=(1,)), TaskState(task(5), progress=(1,))
ENDED = replace(MINE, finished=True)


def pod(started: str = "2026-01-01T00:00:00Z", *, ready: bool = True, uid: str = "p1") -> WorkerPod:
    metadata = {"name": "w-0", "namespace": NAMESPACE, "uid": uid, "resourceVersion": "1"}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    state = {"running": {"startedAt": started}} if started else {"waiting": {}}
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [{"name": "a", "state": state}]}
    return worker_pod({"metadata": metadata, "status": status})


POD = pod()


def answer(at: float, *states: TaskState, of: WorkerPod = POD) -> Heard:
    return Heard(Answer(at, of.started, states))


def life(**known: Any) -> Life:
    return Life(**{"task": ID1, "used_at": 0.0, "promised_until": 0.0, **known})


def test_the_idle_time_begins_with_the_first_answer_that_shows_no_running_task() -> None:
    one = life()
    assert one.observe(POD, answer(10.0, MINE), 10.0, VALID).empty_since is None
    assert one.observe(POD, answer(20.0, ENDED), 21.0, VALID).empty_since == 20.0
    assert one.observe(POD, answer(30.0), 31.0, VALID).empty_since == 20.0


def test_a_task_that_came_and_ended_between_two_answers_was_there_all_the_same() -> None:
    one = life()
    assert one.observe(POD, answer(10.0), 10.0, VALID).empty_since == 10.0
    assert one.observe(POD, answer(20.0, ENDED), 20.0, VALID).empty_since == 20.0
    assert one.observe(POD, answer(30.0, ENDED), 30.0, VALID).empty_since == 20.0
    assert one.observe(POD, answer(40.0, replace(ENDED, progress=(2,))), 40.0, VALID).empty_since == 40.0
    assert one.observe(POD, answer(50.0), 50.0, VALID).empty_since == 40.0


@pytest.mark.parametrize(
    ("between", "stage"),
    [
        pytest.param((POD, Heard(answer(20.0).answer, failing_since=30.0)), Stage.READY, id="an answer that failed"),
        pytest.param((POD, answer(20.0)), Stage.READY, id="an answer that is too old"),
        pytest.param((pod("2026-01-01T00:00:09Z"), answer(20.0)), Stage.READY, id="another life of the container"),
        pytest.param((pod(uid="p2"), answer(20.0)), Stage.READY, id="another pod"),
        pytest.param((pod(""), answer(20.0)), Stage.READY, id="no container"),
        pytest.param((None, Heard()), Stage.ABSENT, id="no pod"),
    ],
)
def test_what_nobody_has_looked_at_is_no_idle_time(between: tuple[WorkerPod | None, Heard], stage: Stage) -> None:
    one = life()
    one.observe(POD, answer(20.0), 20.0, VALID)
    at, heard = between
    facts = one.observe(at, heard, 60.0, VALID)
    assert not facts.known or facts.empty_since is None or at is not POD
    later = one.observe(at or POD, answer(70.0, of=at or POD), 70.0, VALID)
    assert later.empty_since in (70.0, None)


def test_a_promise_is_kept_until_the_task_is_seen() -> None:
    one = life()
    one.promise(10.0, 600.0)
    assert one.observe(POD, answer(20.0, OTHER), 20.0, VALID).promised_until == 610.0
    assert one.observe(POD, answer(30.0, MINE), 30.0, VALID).promised_until <= 30.0


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        pytest.param((), (ENDED,), False, id="it came and ended between two answers"),
        pytest.param((ENDED,), (ENDED,), True, id="it had ended before the client was sent"),
        pytest.param((ENDED,), (MINE,), False, id="it had ended before and runs again"),
        pytest.param((MINE,), (MINE,), True, id="it ran before the client was sent"),
        pytest.param((MINE,), (ENDED,), True, id="it ran before the client was sent and has ended since"),
    ],
)
def test_a_promise_ends_only_by_what_the_client_has_changed(
    before: tuple[TaskState, ...], after: tuple[TaskState, ...], kept: bool
) -> None:
    one = life()
    one.observe(POD, answer(10.0, *before), 10.0, VALID)
    one.promise(20.0, 600.0)
    assert (one.observe(POD, answer(30.0, *after), 30.0, VALID).promised_until == 620.0) is kept


def test_a_second_client_on_its_way_is_not_taken_for_the_first_one() -> None:
    one = life()
    one.promise(10.0, 600.0)
    one.promise(12.0, 600.0)
    assert one.observe(POD, answer(20.0, MINE), 20.0, VALID).promised_until == 612.0


def test_progress_is_when_a_running_task_last_moved() -> None:
    one = life()
    one.observe(POD, answer(10.0, MINE), 10.0, VALID)
    assert one.observe(POD, answer(20.0, MINE), 20.0, VALID).progress_at == 10.0
    assert one.observe(POD, answer(30.0, replace(MINE, progress=(2,))), 30.0, VALID).progress_at == 30.0


@pytest.mark.parametrize(
    ("at", "states", "ran"),
    [
        pytest.param(POD, (MINE,), True, id="it still runs"),
        pytest.param(POD, (ENDED,), False, id="it is listed as ended"),
        pytest.param(POD, (), False, id="the process that ran it does not list it any more"),
        pytest.param(pod("2026-01-01T00:00:09Z"), (), True, id="another process does not list it"),
        pytest.param(pod("2026-01-01T00:00:09Z"), (ENDED,), False, id="another process says that it has ended"),
    ],
)
def test_the_end_of_a_task_is_believed_only_if_it_was_seen(
    at: WorkerPod, states: tuple[TaskState, ...], ran: bool
) -> None:
    one = life()
    one.observe(POD, answer(10.0, MINE), 10.0, VALID)
    assert one.observe(at, answer(20.0, *states, of=at), 20.0, VALID).ran is ran


def test_a_task_of_an_earlier_leader_is_believed_to_run_until_its_end_is_seen() -> None:
    one = life(ran=True)
    assert one.observe(POD, answer(10.0), 10.0, VALID).ran
    assert not one.observe(POD, answer(20.0, ENDED), 20.0, VALID).ran


def test_a_pod_that_was_ready_counts_as_use_once_it_is_gone() -> None:
    one = life()
    one.observe(POD, Heard(), 100.0, VALID)
    assert one.observe(POD, Heard(), 500.0, VALID).used_at == 0.0
    assert one.observe(None, Heard(), 600.0, VALID).used_at == 600.0
    assert one.observe(None, Heard(), 700.0, VALID).used_at == 600.0


def test_a_pod_that_is_not_ready_any_more_is_told_from_one_that_never_was() -> None:
    one = life()
    assert one.observe(pod(ready=False), Heard(), 10.0, VALID).stage is Stage.STARTING
    assert one.observe(POD, Heard(), 20.0, VALID).stage is Stage.READY
    assert one.observe(pod(ready=False), Heard(), 30.0, VALID).stage is Stage.LOST
    assert one.observe(pod("2026-01-01T00:00:09Z", ready=False), Heard(), 40.0, VALID).stage is Stage.STARTING
