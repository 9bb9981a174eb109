"""The workers' objects as the scaler knows them, and when they are not to be believed."""

from reconciler.scaler.watching import LOOK_AGAIN_AFTER, LOOKS
from tests.reconciler.scaler.room import Room, in_room


@in_room()
async def test_unknown_until_every_list_is_complete_in_each_term(room: Room) -> None:
    """What is still missing is named; what was known in the term before stays readable."""
    stores = room.knowledge.stores
    room.local(0)
    assert stores.unknown == "the list of pods and statefulsets and claims is not complete yet"
    async with room.lit():
        await room.until(lambda: not stores.unknown)
    room.cluster.wire.refusing = True
    async with room.lit():
        await room.until(lambda: stores.unknown)
        assert stores.pod("tikv-api-0") is not None


@in_room()
async def test_whose_pods_are_whose(room: Room) -> None:
    """Members of a set come and go with their pods."""
    room.local(0)
    room.local(1)
    room.dedicated("w")
    async with room.lit():
        await room.until(lambda: not room.knowledge.stores.unknown)
        assert [pod.name for pod in room.knowledge.stores.pods_of("tikv-api")] == ["tikv-api-0", "tikv-api-1"]
        room.remove("tikv-api-0")
        await room.until(lambda: room.knowledge.stores.pod("tikv-api-0") is None)
        assert [pod.name for pod in room.knowledge.stores.pods_of("tikv-api")] == ["tikv-api-1"]
        room.remove("w-0")
        await room.until(lambda: not room.knowledge.stores.pods_of("w"))


@in_room()
async def test_ws_43_an_empty_list_after_30_pods_is_not_believed_at_once(room: Room) -> None:
    """It is asked for again; whoever is told of a pod that is gone is told to doubt it already."""
    for ordinal in range(30):
        room.local(ordinal)
    stores = room.knowledge.stores
    doubts: list[str] = []
    stores.pods.subscribe(lambda _old, new: doubts.append(stores.unknown) if new is None else None)
    async with room.lit():
        await room.until(lambda: not stores.unknown)
        stores.pods.swap(stores.pods.gather(), stores.pods.version + 1000)
        assert len(doubts) == 30
        assert set(doubts) == {"all pods seem to be gone at once"}
        took = await room.until(lambda: not stores.unknown)
        assert len(stores.pods) == 30
        assert took >= LOOK_AGAIN_AFTER - 0.1


@in_room()
async def test_pods_that_stay_away_are_gone_in_the_end(room: Room) -> None:
    """After a few lists, some time apart."""
    names = [f"tikv-api-{ordinal}" for ordinal in range(30)]
    for ordinal in range(30):
        room.local(ordinal)
    stores = room.knowledge.stores
    async with room.lit():
        await room.until(lambda: not stores.unknown)
        for name in names:
            room.remove(name)
        stores.pods.swap(stores.pods.gather(), stores.pods.version + 1000)
        assert await room.until(lambda: not stores.unknown, within=120.0) >= LOOKS * LOOK_AGAIN_AFTER - 0.1
        assert not stores.pods.values()


@in_room()
async def test_pods_that_go_one_after_the_other_are_believed(room: Room) -> None:
    """The last one is no surprise."""
    stores = room.knowledge.stores
    room.local(0)
    room.local(1)
    async with room.lit():
        await room.until(lambda: len(stores.pods) == 2)
        room.remove("tikv-api-0")
        room.remove("tikv-api-1")
        await room.until(lambda: not stores.pods.values())
        assert not stores.unknown
