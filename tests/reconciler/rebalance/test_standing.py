"""When the pods of a node may be asked to go: only while it is known to be the one that was meant."""

from dataclasses import replace

import pytest

from ebbtide.model import NodeFacts
from reconciler.rebalance.standing import SILENT, UNANSWERED, Standing, Watched, is_still
from tests.reconciler.rebalance.builders import SIGNAL, node, signal_taint

OPEN = Watched(stream=7, silent_for=0.0)
CLOSED = Watched(stream=None, silent_for=3.0)


def confirmed(watched: Watched = OPEN, now: float = 0.0) -> Standing:
    """A node with one pod that was asked for, and is the same; a round of evictions has followed."""
    standing = Standing()
    standing.newcomer()
    standing.ask(watched, now)
    standing.confirmed()
    standing.spend()
    return standing


def test_nothing_is_known_before_the_first_answer() -> None:
    standing = Standing()
    assert not standing.is_sure(OPEN, 0.0)
    standing.ask(OPEN, 0.0)
    assert not standing.is_sure(OPEN, 1.0)
    standing.confirmed()
    assert standing.is_sure(OPEN, 1.0)


@pytest.mark.parametrize(
    ("watched", "sure"),
    [
        (OPEN, True),
        (Watched(7, SILENT), True),
        (Watched(7, SILENT + 0.1), False),
        (Watched(8, 0.0), False),
        (CLOSED, False),
    ],
    ids=["the same stream", "quiet", "silent for too long", "another stream", "no stream"],
)
def test_an_answer_holds_as_long_as_the_stream_of_the_watch_that_was_open(watched: Watched, sure: bool) -> None:
    assert confirmed().is_sure(watched, 1000.0) is sure


def test_an_answer_without_a_stream_is_good_for_one_round() -> None:
    standing = Standing()
    standing.ask(CLOSED, 0.0)
    standing.confirmed()
    assert standing.is_sure(CLOSED, 0.5)
    standing.spend()
    assert not standing.is_sure(CLOSED, 0.5)
    assert standing.may_ask(0.5)


def test_a_question_from_before_the_stream_was_open_says_nothing_of_what_the_stream_missed() -> None:
    assert not confirmed(CLOSED).is_sure(OPEN, 1.0)


def test_a_pod_that_appears_makes_the_node_doubtful_again() -> None:
    standing = confirmed()
    standing.newcomer()
    assert not standing.is_sure(OPEN, 1.0)


def test_a_pod_that_appears_while_the_answer_is_on_its_way_is_not_covered_by_it() -> None:
    standing = Standing()
    standing.ask(OPEN, 0.0)
    standing.newcomer()
    standing.confirmed()
    assert not standing.is_sure(OPEN, 0.1)
    assert standing.may_ask(0.1)


def test_another_node_is_never_taken_for_the_one_that_was_meant_however_long_it_lasts() -> None:
    standing = confirmed()
    pauses = []
    now = 0.0
    for _ in range(8):
        standing.ask(CLOSED, now)
        standing.denied(now)
        assert not standing.is_sure(OPEN, now + 10 * UNANSWERED)
        pause = standing.next_in(now)
        assert pause is not None
        assert not standing.may_ask(now + pause / 2)
        pauses.append(pause)
        now += pause
        assert standing.may_ask(now)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_pods_go_a_minute_after_the_first_of_several_questions_without_an_answer() -> None:
    standing = Standing()
    standing.ask(OPEN, 100.0)
    standing.unanswered(130.0)
    standing.ask(OPEN, 131.0)
    assert not standing.is_sure(OPEN, 100.0 + UNANSWERED - 0.1)
    assert standing.next_in(131.0) == 29.0
    assert standing.is_sure(OPEN, 100.0 + UNANSWERED)


def test_an_answer_is_still_wanted_when_pods_go_without_one() -> None:
    standing = Standing()
    standing.ask(OPEN, 0.0)
    standing.unanswered(50.0)
    assert standing.is_sure(OPEN, 70.0)
    assert not standing.is_confirmed(OPEN)
    standing.ask(OPEN, 70.0)
    standing.denied(71.0)
    assert not standing.is_sure(OPEN, 200.0)


def test_an_answer_begins_the_minute_anew() -> None:
    standing = Standing()
    standing.ask(OPEN, 0.0)
    standing.unanswered(50.0)
    standing.ask(OPEN, 52.0)
    standing.denied(53.0)
    standing.ask(OPEN, 55.0)
    assert not standing.is_sure(OPEN, 70.0)


def test_one_question_at_a_time() -> None:
    standing = Standing()
    assert standing.may_ask(0.0)
    standing.ask(OPEN, 0.0)
    assert not standing.may_ask(1000.0)


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
