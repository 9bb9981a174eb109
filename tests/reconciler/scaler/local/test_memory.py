"""What is remembered of tasks on local pods: sightings, promises, and how both end."""

from typing import Final

from reconciler.scaler.local.memory import Entry, Life, Lists, Memory
from reconciler.scaler.task import TaskId, TaskState
from tests.reconciler.scaler.room import task

PATIENCE: Final = 600.0
ONE: Final = ("u1", "c1")
TWO: Final = ("u1", "c2")
PODS: Final = frozenset(("a", "b"))


def told(memory: Memory, now: float, *states: TaskState, pod: str = "a", life: Life = ONE, cluster: int = 7) -> None:
    listed = {state.task: (state, cluster) for state in states}
    memory.told(Lists(pod, life, listed, frozenset((7,))), now)
    memory.sweep(now, PODS)


def promise(memory: Memory, of: TaskId, now: float = 0.0, pod: str = "a") -> None:
    memory.promise(Entry(of, 7, pod, now, 1 << 20))


def where(memory: Memory, of: TaskId) -> str | None:
    entry = memory.get(of)
    return None if entry is None else entry.pod


def test_a_promise_counts_until_the_task_is_seen_or_the_promise_has_run_out() -> None:
    """The boundary is the end."""
    memory = Memory(PATIENCE)
    promise(memory, task(1))
    told(memory, 599.9)
    assert memory.running("a") == 1
    told(memory, 600.0)
    assert memory.get(task(1)) is None
    assert memory.running("a") == 0


def test_a_client_that_comes_again_has_its_promise_renewed() -> None:
    """It is about to go there now."""
    memory = Memory(PATIENCE)
    promise(memory, task(1))
    memory.renew(task(1), 500.0)
    told(memory, 1099.0)
    assert where(memory, task(1)) == "a"
    told(memory, 1100.0)
    assert where(memory, task(1)) is None


def test_ws_12_ended_tasks_are_known_and_do_not_count() -> None:
    """Finished and cancelled ones alike; one with an error still runs."""
    memory = Memory(PATIENCE)
    ended = (TaskState(task(1), finished=True), TaskState(task(2), canceled=True))
    told(memory, 0.0, *ended, TaskState(task(3), error="x"))
    assert memory.running("a") == 1
    assert [where(memory, task(number)) for number in (1, 2, 3)] == ["a", "a", "a"]


def test_a_task_that_has_left_the_list_is_over() -> None:
    """The worker has collected it."""
    memory = Memory(PATIENCE)
    told(memory, 0.0, TaskState(task(1)))
    told(memory, 10.0)
    assert memory.get(task(1)) is None


def test_a_list_for_other_clusters_says_nothing() -> None:
    """The task stays as it was."""
    memory = Memory(PATIENCE)
    memory.told(Lists("a", ONE, {task(1): (TaskState(task(1)), 8)}, frozenset((7, 8))), 0.0)
    told(memory, 10.0)
    assert where(memory, task(1)) == "a"


def test_a_restart_of_the_pod_makes_its_tasks_promises() -> None:
    """They may come back; if not they are forgotten after a while."""
    memory = Memory(PATIENCE)
    told(memory, 0.0, TaskState(task(1)), TaskState(task(2), finished=True))
    told(memory, 1000.0, life=TWO)
    assert memory.running("a") == 2
    told(memory, 1030.0, TaskState(task(1)), life=TWO)
    told(memory, 1599.0, TaskState(task(1)), life=TWO)
    assert where(memory, task(2)) == "a"
    told(memory, 1600.0, TaskState(task(1)), life=TWO)
    assert where(memory, task(2)) is None
    assert where(memory, task(1)) == "a"


def test_a_pod_that_is_gone_keeps_its_tasks_for_a_while() -> None:
    """Its clients ask for its name."""
    memory = Memory(PATIENCE)
    told(memory, 0.0, TaskState(task(1)))
    memory.sweep(100.0, frozenset())
    memory.sweep(699.0, frozenset())
    assert where(memory, task(1)) == "a"
    memory.sweep(700.0, frozenset())
    assert where(memory, task(1)) is None


def test_a_task_on_two_pods_is_where_it_runs() -> None:
    """Another leader has placed it anew; the old pod still lists it as ended, or was only promised it."""
    memory = Memory(PATIENCE)
    promise(memory, task(1), pod="a")
    told(memory, 1.0, TaskState(task(1)), pod="b")
    assert where(memory, task(1)) == "b"
    told(memory, 2.0, TaskState(task(1), canceled=True), pod="a")
    assert where(memory, task(1)) == "b"
    assert memory.running("a") == 0


def test_nothing_is_left_of_tasks_that_are_over() -> None:
    """Ten thousand come and go."""
    memory = Memory(PATIENCE)
    for number in range(10_000):
        promise(memory, task(number), float(number))
        told(memory, float(number), TaskState(task(number)))
    told(memory, 10_001.0)
    assert not memory.entries()
    assert memory.running("a") == 0
