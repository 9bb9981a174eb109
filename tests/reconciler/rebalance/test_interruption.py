"""An instance that AWS has said it takes is no false alarm: its signal is not waited out."""

from typing import Any

import pytest

from ebbtide.model import NodeFacts, format_time
from reconciler.rebalance.plan import Wish
from reconciler.rebalance.signal import signal_of
from tests.reconciler.rebalance.builders import NOW, SIGNAL, cell, node, plan_of, signal_taint

FRESH = signal_taint(str(int(NOW - 1)))
SOON = format_time(NOW + 119)


def interrupted(name: str = "a1", ends: str = SOON, **special: Any) -> NodeFacts:
    return node(name, signal=FRESH, interruption_notice=ends, **special)


def test_one_certain_signal_blocks_at_once_and_empties_its_node() -> None:
    """Two minutes are left; the age of the signal is what it is."""
    found = plan_of(cell(interrupted(), node("a2")), "a1")
    assert (found.wish, found.taint, found.evict is not None) == (Wish.BLOCK, ("a1", "a2"), True)
    assert "AWS takes the instance of node a1" in found.reason
    assert found.signals[0].age(NOW) == 1


def test_the_notice_alone_is_no_signal() -> None:
    """Whoever takes the taint away has the last word."""
    found = plan_of(cell(node("a1", interruption_notice=SOON), node("a2", prevent=True)), "a1")
    assert (found.wish, found.untaint, found.signals) == (Wish.OPEN, ("a2",), ())


def test_another_node_of_the_zone_is_not_emptied() -> None:
    found = plan_of(cell(interrupted(), node("a2")), "a2")
    assert (found.wish, found.evict) == (Wish.BLOCK, None)


@pytest.mark.parametrize("ends", ["soon", "", format_time(NOW - 90_000)], ids=["no time", "empty", "an earlier node's"])
def test_a_notice_that_says_nothing_of_this_node_makes_nothing_certain(ends: str) -> None:
    """Not a time, or one from before the node was there: an ordinary recent signal."""
    signal = signal_of(interrupted(ends=ends), SIGNAL, NOW)
    assert signal is not None
    assert not signal.certain
    assert plan_of(cell(interrupted(ends=ends), node("a2")), "a1").wish is Wish.WAIT


def test_overrides_hold_for_certain_signals_too() -> None:
    assert plan_of(cell(interrupted(ignored=True), node("a2")), "a1").wish is Wish.OPEN
