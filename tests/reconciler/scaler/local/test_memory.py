"""What is remembered of tasks on local pods: sightings, promises, and how both end."""

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

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


def test_promises_are_those_that_no_pod_has_confirmed() -> None:
    """What a pod lists is none, until a restart of it has lost sight of it; what has run out is none."""
    memory = Memory(PATIENCE)
    for number in (1, 2, 3):
        promise(memory, task(number))
    assert memory.promises == 3
    promise(memory, task(3))
    assert memory.promises == 3
    told(memory, 1.0, TaskState(task(1)), TaskState(task(4)))
    assert memory.promises == 2
    told(memory, 2.0, life=TWO)
    assert memory.promises == 4
    memory.forget(task(4))
    told(memory, 600.0, life=TWO)
    assert memory.promises == 1
    told(memory, 700.0, life=TWO)
    assert memory.promises == 0


entries = st.integers(1, 6)
asked = st.frozensets(st.sampled_from((7, 8)))
sightings = st.dictionaries(entries, st.tuples(st.booleans(), st.sampled_from((7, 8))), max_size=4)
moves = st.one_of(
    st.tuples(st.just("promise"), entries, st.sampled_from("ab")),
    st.tuples(st.just("forget"), entries, st.just("")),
    st.tuples(st.just("told"), st.tuples(sightings, asked, st.sampled_from((ONE, TWO))), st.sampled_from("ab")),
    st.tuples(st.just("sweep"), st.frozensets(st.sampled_from("ab")), st.just("")),
)


@given(st.lists(moves, max_size=30))
def test_the_counts_are_those_of_the_entries(history: list[Any]) -> None:
    """Whatever happens, in whatever order: they are kept beside the entries, and never drift from them."""
    memory = Memory(PATIENCE)
    for step, (move, what, pod) in enumerate(history):
        now = step * 200.0
        match move:
            case "promise":
                promise(memory, task(what), now, pod)
            case "forget":
                memory.forget(task(what))
            case "told":
                states, clusters, life = what
                listed = {task(n): (TaskState(task(n), finished=done), of) for n, (done, of) in states.items()}
                memory.told(Lists(pod, life, listed, clusters), now)
            case _:
                memory.sweep(now, what)
        kept = list(memory.entries())
        assert memory.promises == sum(entry.seen is None for entry in kept)
        for name in "ab":
            assert memory.running(name) == sum(entry.load for entry in kept if entry.pod == name)
