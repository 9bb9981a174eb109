"""When the pods of a node may be asked to go: only while it is known to be the one that was meant."""

from dataclasses import replace

import pytest

from ebbtide.model import NodeFacts
from reconciler.rebalance.confirmation import SILENT, UNANSWERED, Confirmation, NodeWatch, is_still
from tests.reconciler.rebalance.builders import SIGNAL, node, signal_taint

OPEN = NodeWatch(stream=7, silent_for=0.0)
CLOSED = NodeWatch(stream=None, silent_for=3.0)


def confirmed(watched: NodeWatch = OPEN, now: float = 0.0) -> Confirmation:
    """A node with one pod that was asked for, and is the same; a round of evictions has followed."""
    confirmation = Confirmation()
    confirmation.newcomer()
    confirmation.ask(watched, now)
    confirmation.confirmed()
    confirmation.spend()
    return confirmation


def test_nothing_is_known_before_the_first_answer() -> None:
    confirmation = Confirmation()
    assert not confirmation.is_sure(OPEN, 0.0)
    confirmation.ask(OPEN, 0.0)
    assert not confirmation.is_sure(OPEN, 1.0)
    confirmation.confirmed()
    assert confirmation.is_sure(OPEN, 1.0)


@pytest.mark.parametrize(
    ("watched", "sure"),
    [
        (OPEN, True),
        (NodeWatch(7, SILENT), True),
        (NodeWatch(7, SILENT + 0.1), False),
        (NodeWatch(8, 0.0), False),
        (CLOSED, False),
    ],
    ids=["the same stream", "quiet", "silent for too long", "another stream", "no stream"],
)
def test_an_answer_holds_as_long_as_the_stream_of_the_watch_that_was_open(watched: NodeWatch, sure: bool) -> None:
    assert confirmed().is_sure(watched, 1000.0) is sure


def test_an_answer_without_a_stream_is_good_for_one_round() -> None:
    confirmation = Confirmation()
    confirmation.ask(CLOSED, 0.0)
    confirmation.confirmed()
    assert confirmation.is_sure(CLOSED, 0.5)
    confirmation.spend()
    assert not confirmation.is_sure(CLOSED, 0.5)
    assert confirmation.may_ask(0.5)


def test_a_question_from_before_the_stream_was_open_says_nothing_of_what_the_stream_missed() -> None:
    assert not confirmed(CLOSED).is_sure(OPEN, 1.0)


def test_a_pod_that_appears_makes_the_node_doubtful_again() -> None:
    confirmation = confirmed()
    confirmation.newcomer()
    assert not confirmation.is_sure(OPEN, 1.0)


def test_a_pod_that_appears_while_the_answer_is_on_its_way_is_not_covered_by_it() -> None:
    confirmation = Confirmation()
    confirmation.ask(OPEN, 0.0)
    confirmation.newcomer()
    confirmation.confirmed()
    assert not confirmation.is_sure(OPEN, 0.1)
    assert confirmation.may_ask(0.1)


def test_another_node_is_never_taken_for_the_one_that_was_meant_however_long_it_lasts() -> None:
    confirmation = confirmed()
    pauses = []
    now = 0.0
    for _ in range(8):
        confirmation.ask(CLOSED, now)
        confirmation.denied(now)
        assert not confirmation.is_sure(OPEN, now + 10 * UNANSWERED)
        pause = confirmation.next_in(now)
        assert pause is not None
        assert not confirmation.may_ask(now + pause / 2)
        pauses.append(pause)
        now += pause
        assert confirmation.may_ask(now)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_pods_go_a_minute_after_the_first_of_several_questions_without_an_answer() -> None:
    confirmation = Confirmation()
    confirmation.ask(OPEN, 100.0)
    confirmation.unanswered(130.0)
    confirmation.ask(OPEN, 131.0)
    assert not confirmation.is_sure(OPEN, 100.0 + UNANSWERED - 0.1)
    assert confirmation.next_in(131.0) == 29.0
    assert confirmation.is_sure(OPEN, 100.0 + UNANSWERED)


def test_an_answer_is_still_wanted_when_pods_go_without_one() -> None:
    confirmation = Confirmation()
    confirmation.ask(OPEN, 0.0)
    confirmation.unanswered(50.0)
    assert confirmation.is_sure(OPEN, 70.0)
    assert not confirmation.is_confirmed(OPEN)
    confirmation.ask(OPEN, 70.0)
    confirmation.denied(71.0)
    assert not confirmation.is_sure(OPEN, 200.0)


def test_an_answer_begins_the_minute_anew() -> None:
    confirmation = Confirmation()
    confirmation.ask(OPEN, 0.0)
    confirmation.unanswered(50.0)
    confirmation.ask(OPEN, 52.0)
    confirmation.denied(53.0)
    confirmation.ask(OPEN, 55.0)
    assert not confirmation.is_sure(OPEN, 70.0)


def test_one_question_at_a_time() -> None:
    confirmation = Confirmation()
    assert confirmation.may_ask(0.0)
    confirmation.ask(OPEN, 0.0)
    assert not confirmation.may_ask(1000.0)


MEANT = node("a1", signal=30)


@pytest.mark.parametrize(
    ("found", "still"),
    [
        (MEANT, True),
        (replace(MEANT, resource_version=99, unschedulable=True), True),
        (node("a1", signal=signal_taint("1772366000")), True),
        (replace(MEANT, uid="another"), False),
        (node("a1"), False),
        (replace(MEANT, deleting=True), False),
        (replace(MEANT, ignored=True), False),
    ],
    ids=["as it was", "cordoned", "another signal", "another node", "no signal", "being deleted", "to be left alone"],
)
def test_what_a_read_says_of_the_node(found: NodeFacts, still: bool) -> None:
    assert is_still(MEANT, found, SIGNAL) is still
