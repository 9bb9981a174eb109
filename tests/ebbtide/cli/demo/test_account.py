"""The account is added up from moments, and from nothing else."""

from ebbtide.cli.demo.account import account, comparison, facts_of, figures, milestones
from ebbtide.cli.demo.chronicle import Absence, Chronicle, Moment, What, absences, most_away
from ebbtide.cli.demo.play import Ending
from ebbtide.cli.demo.promises import Evidence
from ebbtide.cli.demo.scenarios import SCENARIOS
from ebbtide.cli.demo.scene import Scene
from ebbtide.cli.demo.words import Line, Voice, lines


def chronicle(*moments: Moment) -> Chronicle:
    told = Chronicle()
    for moment in moments:
        told.note(moment)
    return told


def away(at: float, slot: str, who: str = "") -> Moment:
    return Moment(at, What.POD_AWAY, who or slot, slot=slot)


def back(at: float, slot: str, who: str = "", zone: str = "z2") -> Moment:
    return Moment(at, What.POD_SERVES, who or slot, zone=zone, slot=slot)


def ending(*moments: Moment, lasted: float = 100.0) -> Ending:
    return Ending(SCENARIOS[0], Evidence(chronicle(*moments), Scene(lasted, ("z1", "z2"))), (), late=False)


def test_an_absence_lasts_until_something_fills_the_slot_again() -> None:
    told = chronicle(away(10, "tikv-0"), away(11, "tidb", "tidb-a"), back(20, "tidb", "tidb-b"), back(40, "tikv-0"))
    assert absences(told) == (Absence("tikv-0", 10, 40), Absence("tidb", 11, 20))


def test_a_pod_that_is_there_for_the_first_time_replaces_nobody() -> None:
    assert absences(chronicle(back(5, "tidb"), away(10, "tidb"))) == (Absence("tidb", 10, None),)


def test_the_worst_moment_counts_pods_of_one_workload_that_are_away_together() -> None:
    told = chronicle(away(1, "tikv-0"), away(2, "tidb"), back(3, "tikv-0"), away(4, "tikv-1"), away(5, "tikv-2"))
    assert most_away(told, "tikv-") == 2


def test_figures_count_every_node_and_pod_once() -> None:
    found = ending(
        Moment(1, What.SIGNALLED, "a-1"),
        Moment(2, What.TAINTED, "a-1"),
        Moment(9, What.TAINTED, "a-1"),
        Moment(3, What.REFUSED, "tikv-0"),
        Moment(4, What.EVICTED, "tikv-0"),
        Moment(5, What.NODE_ADDED, "b-x", zone="z2"),
        away(4, "tikv-0"),
        back(64, "tikv-0"),
    )
    assert list(figures(facts_of(found))) == [
        "1 signal, 1 node tainted, 1 eviction (tikv-0 held back for a while by a budget)",
        "nodes added: 1 in z2",
        "longest time away: tikv-0, 1:00 minutes",
    ]


def test_a_pod_that_nothing_replaced_is_still_missed_at_the_end() -> None:
    gone = Moment(30, What.NODE_GONE, "a-1", words="tikv-0 tidb-a")
    found = facts_of(ending(gone, away(30, "tikv-0"), lasted=90))
    assert list(comparison(found)) == [
        "AWS takes a-1 away with 2 pods still on it",
        "longest time away: tikv-0, 1:00 minutes, and nothing has taken its place",
    ]


def test_milestones_come_in_the_order_of_time() -> None:
    found = ending(
        away(3.2, "tikv-0"),
        Moment(3.3, What.EVICTED, "tikv-0", node="a-1"),
        Moment(3.1, What.TAINTED, "a-2", zone="z1"),
        Moment(3.1, What.TAINTED, "a-1", zone="z1"),
        back(60, "tikv-0"),
        Moment(1, What.SIGNALLED, "a-1", zone="z1"),
    )
    assert [words for _, words in milestones(found)] == [
        "rebalance signal on a-1",
        "no-growth taint on a-1 and a-2",
        "1 pod evicted: tikv-0",
        "every pod is Ready again, the new ones in z2",
    ]


def test_an_account_without_anything_to_tell_says_so() -> None:
    assert "  0 signals, 0 nodes tainted, 0 evictions" in list(account(ending(), ending()))


def test_moments_of_one_kind_and_second_share_a_line() -> None:
    told = (
        Moment(14.01, What.TAINTED, "a-2", zone="z1"),
        Moment(14.02, What.POD_AWAY, "tikv-0"),
        Moment(14.03, What.TAINTED, "a-1", zone="z1"),
        Moment(15.00, What.TAINTED, "a-3", zone="z1"),
    )
    assert lines(told) == (
        Line(14.01, Voice.EBBTIDE, "taints a-1 and a-2"),
        Line(15.00, Voice.EBBTIDE, "taints a-3"),
    )
