"""Who holds room for a body, and who waits for it."""

import pytest

from webhook.budget import Budget, Claim


class Queue:
    """A budget of 100 bytes for which two may wait, and the names of those who were granted room later."""

    def __init__(self) -> None:
        self.budget = Budget(100, 2)
        self.granted: list[str] = []

    def claim(self, name: str, size: int) -> Claim:
        claim = self.budget.claim(size, lambda: self.granted.append(name))
        assert claim is not None
        return claim


def test_who_finds_room_has_it_at_once() -> None:
    queue = Queue()
    assert [queue.claim(name, 50).held for name in "abc"] == [True, True, False]
    assert queue.granted == []


def test_room_is_given_in_the_order_in_which_it_was_asked_for() -> None:
    """Also to one that needs little: what is large would otherwise never have its turn."""
    queue = Queue()
    first = queue.claim("first", 60)
    second, third = queue.claim("second", 80), queue.claim("third", 30)
    assert not third.held
    queue.budget.release(first)
    assert (second.held, third.held, queue.granted) == (True, False, ["second"])
    queue.budget.release(second)
    assert (third.held, queue.granted) == (True, ["second", "third"])


def test_who_gives_up_waiting_makes_way_for_the_next() -> None:
    queue = Queue()
    queue.claim("first", 60)
    second, third = queue.claim("second", 80), queue.claim("third", 30)
    queue.budget.release(second)
    assert (third.held, queue.granted) == (True, ["third"])


def test_only_so_many_may_wait() -> None:
    queue = Queue()
    first = queue.claim("first", 100)
    queue.claim("second", 10)
    queue.claim("third", 10)
    assert queue.budget.claim(10, pytest.fail) is None
    queue.budget.release(first)
    assert queue.granted == ["second", "third"]
    assert queue.claim("fourth", 80).held
