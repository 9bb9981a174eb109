"""Each promise of a load holds for moments in order, and names what is against it otherwise."""

import pytest

from ebbtide.cli.demo.chronicle import Chronicle, Moment, What
from ebbtide.cli.demo.load import promises
from ebbtide.cli.demo.load.account import busiest
from ebbtide.cli.demo.load.promises import most_own
from ebbtide.cli.demo.load.scene import LoadScene, TableView
from ebbtide.cli.demo.load.tables import GIB, Step, Table
from ebbtide.cli.demo.promises import Evidence, Promise
from ebbtide.cli.demo.scene import Scene

ORDERS = Table(6, "orders", 110 * GIB, 150)


def evidence(*moments: Moment, load: LoadScene | None = None) -> Evidence:
    chronicle = Chronicle()
    for moment in moments:
        chronicle.note(moment)
    return Evidence(chronicle, Scene(9.0, ("z1", "z2"), load=load))


def sent(table: str, pod: str, at: float = 1.0) -> Moment:
    return Moment(at, What.SENT_TO, table, node=pod, words="own")


def made(name: str) -> Moment:
    return Moment(1, What.WORKER_MADE, name)


def gone(name: str) -> Moment:
    return Moment(2, What.WORKER_GONE, name)


BLOCKED = Moment(3, What.ZONE, "blocked", zone="spot/z1")
OPEN = Moment(5, What.ZONE, "open", zone="spot/z1")


def placed(zone: str, at: float = 4) -> Moment:
    return Moment(at, What.POD_PLACED, "w-0", zone=zone)


@pytest.mark.parametrize(
    ("promise", "moments", "against"),
    [
        pytest.param(promises.none_is_cut_off(), [], "", id="nothing was cut off"),
        pytest.param(
            promises.none_is_cut_off(),
            [Moment(1, What.CUT_OFF, "w-0", words="orders")],
            "w-0 went with orders",
            id="a worker went with its task",
        ),
        pytest.param(
            promises.none_fails(),
            [Moment(1, What.TABLE_FAILED, "orders", words="init: 400")],
            "orders: init: 400",
            id="a client gave up",
        ),
        pytest.param(
            promises.redirects_only_first(),
            [Moment(1, What.MISDIRECTED, "orders", words="flush")],
            "flush of orders was redirected",
            id="a flush was redirected",
        ),
        pytest.param(promises.one_place_each(), [sent("orders", "w-0"), sent("orders", "w-0")], "", id="one place"),
        pytest.param(
            promises.one_place_each(),
            [sent("orders", "w-0"), sent("parts", "v-0"), sent("orders", "x-0")],
            "orders was sent to w-0 and to x-0",
            id="two places",
        ),
        pytest.param(
            promises.own_workers_at_most(1), [made("w"), gone("w"), made("v")], "", id="one worker after the other"
        ),
        pytest.param(promises.own_workers_at_most(1), [made("w"), made("v")], "there were 2", id="two workers"),
        pytest.param(promises.pool_at_most(2), [Moment(1, What.POOL_SIZED, "p", words="2")], "", id="a full pool"),
        pytest.param(
            promises.pool_at_most(2), [Moment(1, What.POOL_SIZED, "p", words="3")], "it had 3", id="a pool too large"
        ),
        pytest.param(
            promises.reaches_size(3),
            [Moment(1, What.POOL_SIZED, "p", words="2")],
            "it never had more than 2",
            id="a pool too small",
        ),
        pytest.param(
            promises.places_none("z1"), [placed("z1", 1), BLOCKED, placed("z2"), OPEN, placed("z1", 6)], "", id="around"
        ),
        pytest.param(
            promises.places_none("z1"), [BLOCKED, placed("z1")], "w-0 was placed there at 4 s", id="into the block"
        ),
        pytest.param(
            promises.holds_back_busy(), [sent("orders", "w-0")], "no eviction of a busy worker was refused", id="moved"
        ),
        pytest.param(
            promises.holds_back_busy(),
            [sent("orders", "w-0"), Moment(2, What.REFUSED, "w-0"), Moment(9, What.EVICTED, "w-0")],
            "",
            id="held back",
        ),
    ],
)
def test_what_is_against_a_promise(promise: Promise, moments: list[Moment], against: str) -> None:
    assert promise.missing(evidence(*moments)) == against


@pytest.mark.parametrize(
    ("load", "against"),
    [
        (None, "no table was begun"),
        (LoadScene(tables=(TableView(ORDERS, Step.LOADING),)), "orders is loading"),
        (LoadScene(tables=(TableView(ORDERS, Step.LOADED),)), ""),
    ],
    ids=["none", "under way", "loaded"],
)
def test_every_table_has_to_be_loaded(load: LoadScene | None, against: str) -> None:
    assert promises.every_table_ends().missing(evidence(load=load)) == against


def test_whatever_is_left_is_named() -> None:
    left = evidence(load=LoadScene(left=("ldw-1-26-6-0",)))
    assert promises.nothing_is_left().missing(left) == "ldw-1-26-6-0 is still there"
    assert promises.nothing_is_left().missing(evidence(load=LoadScene())) == ""


def test_figures_count_what_was_there_at_the_same_time() -> None:
    told = evidence(
        made("w"),
        sent("a", "p-0"),
        sent("b", "p-0"),
        sent("a", "p-0"),
        Moment(2, What.TABLE_LOADED, "a"),
        gone("w"),
        made("v"),
        sent("c", "p-0", 3),
        sent("d", "p-1", 3),
    ).chronicle
    assert most_own(told) == 1
    assert busiest(told) == 2
