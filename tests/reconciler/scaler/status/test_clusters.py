"""For which clusters workers are asked, and where their number ends."""

import asyncio
from collections.abc import Iterable

from reconciler.scaler.status.clusters import MOST, Clusters
from tests.reconciler.scaler.room import Room, in_room


def clusters(room: Room, known: Iterable[int], fixed: int = 0) -> Clusters:
    """Those that tasks are known of, who may change."""
    made = Clusters(fixed, room.knowledge.stores)
    made.add_source(lambda: known)
    return made


@in_room(cluster_id=0)
async def test_there_is_room_for_so_many_clusters_and_not_for_one_more(room: Room) -> None:
    known: set[int] = set()
    made = clusters(room, known)
    for cluster in range(1, MOST + 1):
        assert made.refusal(cluster) == ""
        known.add(cluster)
    assert "set cluster-id" in made.refusal(MOST + 1)
    assert made.refusal(1) == ""
    assert made.all() == known


@in_room(cluster_id=0)
async def test_a_cluster_without_tasks_makes_room(room: Room) -> None:
    known = set(range(1, MOST + 1))
    made = clusters(room, known)
    assert made.refusal(MOST + 1)
    known.remove(5)
    assert made.refusal(MOST + 1) == ""
    known.add(MOST + 1)
    assert made.refusal(5)


@in_room(cluster_id=0)
async def test_those_that_came_by_other_ways_are_asked_for_all_the_same(room: Room) -> None:
    """What is not asked for is unknown: nothing is left out because there is too much of it."""
    known = set(range(1, MOST + 20))
    assert clusters(room, known).all() == known


@in_room(cluster_id=7)
async def test_where_the_cluster_is_set_there_is_but_one(room: Room) -> None:
    made = clusters(room, range(1, MOST + 20), fixed=7)
    assert made.refusal(7) == ""
    assert made.all() == {7}
    await asyncio.sleep(0)
