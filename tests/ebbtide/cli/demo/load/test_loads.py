"""What the scenarios with load-data tasks show, and that a broken promise is seen."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ebbtide.cli.demo.chronicle import Moment, What
from ebbtide.cli.demo.load.account import busiest, milestones
from ebbtide.cli.demo.load.promises import largest, most_own
from ebbtide.cli.demo.load.scenarios import BURST, IMPORT
from ebbtide.cli.demo.load.scene import Doing, Kind, LoadScene
from ebbtide.cli.demo.load.tables import GIB, Step, Table
from ebbtide.cli.demo.play import Ending, Nobody, play
from ebbtide.cli.demo.scenario import RISKY, SAFE, World
from ebbtide.cli.demo.scene import Scene


@dataclass
class Watcher:
    """Keeps every scene of the load, one a second."""

    scenes: list[LoadScene] = field(default_factory=list)

    def moment(self, moment: Moment, /) -> None: ...

    async def watch(self, look: Callable[[], Scene], /) -> None:
        while True:
            load = look().load
            assert load is not None
            self.scenes.append(load)
            await asyncio.sleep(1.0)


def places(ending: Ending) -> dict[str, str]:
    """What kind of a worker each table was sent to."""
    return {moment.who: moment.words for moment in ending.evidence.chronicle.of(What.SENT_TO)}


def test_tables_go_by_their_size() -> None:
    """Up to two GiB to local pods, larger ones to workers of their own."""
    ending = play(IMPORT, 1, None, Nobody())
    load = ending.evidence.scene.load
    assert load is not None
    for view in load.tables:
        large = view.table.size > 2 * GIB
        assert places(ending)[view.table.name] == (Kind.OWN if large else Kind.LOCAL).value
        assert view.step is Step.LOADED
    assert most_own(ending.evidence.chronicle) == 6


def test_a_busy_worker_is_left_where_it_is_and_moved_when_it_is_not() -> None:
    """Its first eviction is refused; the one that succeeds comes after its table was loaded."""
    chronicle = play(IMPORT, 2, None, Nobody()).evidence.chronicle
    loaded = {moment.node: moment.at for moment in chronicle.of(What.TABLE_LOADED)}
    refused = {moment.who for moment in chronicle.of(What.REFUSED)}
    evicted = {moment.who: moment.at for moment in chronicle.of(What.EVICTED)}
    assert refused
    assert refused >= evicted.keys()
    assert all(at > loaded[pod] for pod, at in evicted.items())


def test_what_comes_while_the_zone_is_blocked_runs_in_the_other_one() -> None:
    chronicle = play(IMPORT, 3, None, Nobody()).evidence.chronicle
    [blocked] = [moment.at for moment in chronicle.of(What.ZONE) if moment.who == "blocked"]
    placed = {moment.zone for moment in chronicle.of(What.POD_PLACED) if moment.at > blocked}
    assert placed == {SAFE}
    assert RISKY in {moment.zone for moment in chronicle.of(What.POD_PLACED)}


def test_a_client_that_is_started_anew_is_sent_to_the_same_worker() -> None:
    chronicle = play(IMPORT, 1, None, Nobody()).evidence.chronicle
    [again] = [moment.who for moment in chronicle.of(What.TABLE_BEGUN_AGAIN)]
    sent = [moment.node for moment in chronicle.of(What.SENT_TO) if moment.who == again]
    assert len(sent) == 3  # its first init; the existence check and the init of the second client
    assert len(set(sent)) == 1


def test_the_pool_goes_from_nothing_to_its_largest_and_back() -> None:
    watcher = Watcher()
    ending = play(BURST, 1, None, watcher)
    pools = [scene.pool for scene in watcher.scenes if scene.pool is not None]
    assert pools[0].replicas == pools[-1].replicas == 0
    assert max(pool.replicas for pool in pools) == largest(ending.evidence.chronicle) == 6
    sizes = [int(moment.words) for moment in ending.evidence.chronicle.of(What.POOL_SIZED)]
    grown = sizes[: sizes.index(6) + 1]
    assert grown == sorted(grown)
    assert sizes[len(grown) - 1 :] == sorted(sizes[len(grown) - 1 :], reverse=True)


def test_no_pod_has_more_tasks_than_it_may_have() -> None:
    """36 tables are as many as six pods may have, six each."""
    watcher = Watcher()
    ending = play(BURST, 2, None, watcher)
    assert busiest(ending.evidence.chronicle) == 6
    busy = [worker.running for scene in watcher.scenes for worker in scene.workers if worker.doing is Doing.BUSY]
    assert max(busy) == 6


def test_an_instance_that_is_taken_under_a_busy_worker_breaks_the_promise() -> None:
    """Nobody can keep a worker when AWS takes its machine; the account must not say that it was kept."""

    async def taken(world: World) -> None:
        await world.at(4)
        world.load(Table(1, "orders", 110 * GIB, 300))
        await world.at(20)
        await world.take("a-1", "a-2", "a-3")

    ending = play(replace(IMPORT, script=taken, limit=200.0), 1, None, Nobody())
    assert "no worker goes while it has a task" in {promise.words for promise, _ in ending.broken}
    [cut] = ending.evidence.chronicle.of(What.CUT_OFF)
    assert cut.words == "orders"


def test_an_import_that_does_not_end_in_time_is_not_as_promised() -> None:
    ending = play(replace(IMPORT, limit=60.0), 1, None, Nobody())
    assert ending.late
    assert "every table is loaded" in {promise.words for promise, _ in ending.broken}


def test_milestones_come_in_the_order_of_time() -> None:
    told = [at for at, _ in milestones(play(BURST, 3, None, Nobody()).evidence.chronicle)]
    assert [int(at) for at in told] == sorted(int(at) for at in told)
