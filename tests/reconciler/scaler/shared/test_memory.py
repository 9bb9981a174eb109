"""Which task is on which pod: promises, answers, pods that begin anew, idle clocks."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.scaler.contract import Arrival
from reconciler.scaler.shared.facts import PodState
from reconciler.scaler.shared.ledger import Entry
from reconciler.scaler.shared.memory import Memory
from reconciler.scaler.status.book import Answer
from reconciler.scaler.task import TaskId, TaskState

GB = 1 << 30
RESERVATION = 600.0


def task(number: int) -> TaskId:
    return TaskId(1, 170, number, 0)


def memory(grace: float = 0.0) -> Memory:
    return Memory(RESERVATION, grace)


def says(
    at: float, *, running: Iterable[int] = (), ended: Iterable[int] = (), life: str = "a", asked: Iterable[int] = (7,)
) -> Answer:
    states = (
        *(TaskState(task(number)) for number in running),
        *(TaskState(task(number), finished=True) for number in ended),
    )
    return Answer(at, life, states, (7,) * len(states), frozenset(asked))


def promised(known: Memory, *numbers: int, at: float = 0.0, ordinal: int = 0, cluster: int = 7) -> None:
    for number in numbers:
        known.promise(Arrival(task(number), cluster, GB), ordinal, at, 0)


def heard_of() -> Memory:
    """With an answer of the pod that promises are for: a promise is made to no other."""
    known = memory()
    known.heard(0, "u", says(-1), -1)
    return known


def test_a_promise_is_load_until_the_task_is_seen_and_then_the_task_is() -> None:
    known = memory()
    promised(known, 1, 2)
    assert (known.seat(0).running, known.reserved(0)) == (0, 2)
    known.heard(0, "u", says(1, running=[1]), 1)
    assert (known.seat(0).running, known.reserved(0)) == (1, 1)


def test_a_promise_ends_at_its_time_and_not_before() -> None:
    known = heard_of()
    promised(known, 1)
    known.heard(0, "u", says(599.9), 599.9)
    assert task(1) in known.pins
    known.heard(0, "u", says(600), 600)
    assert task(1) not in known.pins


def test_no_promise_ends_while_its_pod_says_nothing() -> None:
    known = memory()
    promised(known, 1)
    known.sweep(10_000, ())
    assert task(1) in known.pins


def test_an_answer_that_was_asked_before_the_promise_does_not_use_it_up() -> None:
    known = memory()
    known.heard(0, "u", says(0), 0)
    promised(known, 1, at=10)
    known.heard(0, "u", says(9, running=[1]), 11)
    known.heard(0, "u", says(12), 12)
    assert task(1) in known.pins


def test_a_task_that_is_not_listed_any_more_is_over() -> None:
    known = memory()
    promised(known, 1)
    known.heard(0, "u", says(1, running=[1]), 1)
    known.heard(0, "u", says(2), 2)
    assert task(1) not in known.pins
    assert known.entries(0) == []


def test_an_answer_for_other_clusters_says_nothing_of_a_task() -> None:
    known = memory()
    promised(known, 1, cluster=8)
    known.heard(0, "u", says(1000, asked=[7]), 1000)
    assert task(1) in known.pins


def test_a_client_that_is_sent_again_gets_the_whole_time_again() -> None:
    known = heard_of()
    promised(known, 1)
    known.renew(known.pins[task(1)], 500)
    known.heard(0, "u", says(1000), 1000)
    assert task(1) in known.pins
    known.heard(0, "u", says(1100), 1100)
    assert task(1) not in known.pins


def test_an_ended_task_keeps_its_place_and_leaves_the_ledger() -> None:
    known = memory()
    promised(known, 1)
    assert known.entries(0)
    known.heard(0, "u", says(1, ended=[1]), 1)
    assert (known.entries(0), known.ended(0, 1), known.disk(0)) == ([], 1, 0)
    assert task(1) in known.pins


def test_a_task_that_begins_again_is_in_the_ledger_again() -> None:
    known = memory()
    promised(known, 1)
    known.heard(0, "u", says(1, ended=[1]), 1)
    known.changed.clear()
    known.heard(0, "u", says(2, running=[1]), 2)
    assert known.changed == {0}
    assert len(known.entries(0)) == 1


def test_a_pod_that_began_anew_has_lost_what_it_does_not_list_and_keeps_it_as_promised() -> None:
    known = memory()
    promised(known, 1, 2, 3)
    known.heard(0, "u", says(1, running=[1, 2], ended=[3]), 1)
    assert known.heard(0, "u", says(100, running=[2], life="b"), 100) == 1
    assert (known.seat(0).running, known.reserved(0)) == (1, 1)
    assert task(3) not in known.pins
    known.heard(0, "u", says(699, running=[2], life="b"), 699)
    assert task(1) in known.pins
    known.heard(0, "u", says(700, running=[2], life="b"), 700)
    assert task(1) not in known.pins


def test_another_pod_of_the_same_name_is_another_life() -> None:
    known = memory()
    promised(known, 1)
    known.heard(0, "u", says(1, running=[1]), 1)
    assert known.heard(0, "other", says(2), 2) == 1
    assert known.reserved(0) == 1


def test_the_first_answer_of_a_term_is_no_loss() -> None:
    known = memory()
    known.adopt({0: [Entry(task(1), 7, GB, 0)]}, 0)
    assert known.heard(0, "u", says(50), 50) == 0
    # Counted anew from the first answer.
    known.heard(0, "u", says(640), 640)
    assert task(1) in known.pins


def test_the_ledger_has_the_last_word_on_a_place() -> None:
    known = memory()
    promised(known, 1, ordinal=0)
    known.adopt({2: [Entry(task(1), 7, GB, 0)]}, 1)
    assert known.pins[task(1)].ordinal == 2
    assert known.reserved(0) == 0


def test_a_task_that_nobody_promised_is_known_by_its_pod_and_not_stored() -> None:
    known = memory()
    known.heard(3, "u", says(1, running=[9]), 1)
    assert known.pins[task(9)].ordinal == 3
    assert known.entries(3) == []


def test_a_task_that_turns_up_on_another_pod_is_load_there_and_stays_where_it_was_sent() -> None:
    known = memory()
    promised(known, 1, ordinal=0)
    known.heard(0, "u", says(1, running=[1]), 1)
    known.heard(2, "v", says(2, running=[1]), 2)
    assert known.pins[task(1)].ordinal == 0
    assert known.seat(2).running == 1


def test_the_idle_time_begins_with_the_first_answer_that_is_empty() -> None:
    known = memory()
    assert known.idle(0, 5) is None
    known.heard(0, "u", says(10), 10)
    known.heard(0, "u", says(20), 20)
    assert known.idle(0, 30) == 20


DOUBTS: dict[str, Callable[[Memory], object]] = {
    "it cannot be read": lambda known: known.unsettled(0),
    "a promise": lambda known: promised(known, 50, at=10),
    "a task": lambda known: known.heard(0, "u", says(10, running=[51]), 10),
    "an ended task": lambda known: known.heard(0, "u", says(10, ended=[52]), 10),
    "another life": lambda known: known.heard(0, "u", says(10, running=[1], life="b"), 10),
}


@pytest.mark.parametrize("doubt", DOUBTS.values(), ids=DOUBTS.keys())
def test_whatever_casts_doubt_ends_the_idle_time(doubt: Callable[[Memory], object]) -> None:
    known = heard_of()
    assert known.idle(0, 9) == 10
    doubt(known)
    assert known.idle(0, 11) is None


def test_ended_tasks_are_not_counted_after_their_grace() -> None:
    known = memory(grace=100)
    known.heard(0, "u", says(1, ended=[1]), 1)
    assert (known.ended(0, 100.9), known.ended(0, 101)) == (1, 0)
    known.heard(0, "u", says(101, ended=[1]), 101)
    assert known.idle(0, 101) == 0


def test_disk_is_set_aside_three_times_for_each_task() -> None:
    known = memory()
    promised(known, 1, 2)
    assert known.disk(0) == 6 * GB


def test_how_long_a_state_lasts_is_counted_from_its_first_look() -> None:
    known = memory()
    assert known.lasting(0, PodState.STARTING, 10) == 0
    assert known.lasting(0, PodState.STARTING, 25) == 15
    assert known.lasting(0, PodState.USABLE, 30) == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["promise", "hear", "begin anew", "renew", "forget"]),
            st.integers(0, 5),
            st.sets(st.integers(0, 5)),
        ),
        max_size=40,
    )
)
def test_every_pin_is_on_exactly_its_seat_and_load_is_never_lost_to_it(
    steps: list[tuple[str, int, set[int]]],
) -> None:
    known, now, life = memory(), 0.0, "a"
    for what, number, others in steps:
        now += 100
        pin = known.pins.get(task(number))
        if what == "promise" and pin is None:
            promised(known, number, at=now, ordinal=number % 2)
        elif what == "renew" and pin is not None:
            known.renew(pin, now)
        elif what == "forget":
            known.forget(task(number))
        elif what in ("hear", "begin anew"):
            life = life + "x" if what == "begin anew" else life
            known.heard(number % 2, "u", says(now, running=others, life=life), now)
        on_seats = [each for seat in known.seats.values() for each in seat.pins]
        assert sorted(on_seats) == sorted(known.pins)
        for pin in known.pins.values():
            assert known.seats[pin.ordinal].pins[pin.task] is pin
        for ordinal, seat in known.seats.items():
            assert (ordinal in set(known.loaded())) == bool(seat.running + known.reserved(ordinal))
