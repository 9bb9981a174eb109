"""From changes of a store to keys in a queue."""

from dataclasses import dataclass, field
from typing import Any

from ebbtide.kube.store import Store
from reconciler.engine.informer import connect
from reconciler.engine.queue import WorkQueue


@dataclass(frozen=True)
class Thing:
    key: str
    uid: str
    resource_version: int = field(compare=False)
    cell: str


def thing(name: str, version: int, cell: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}, "cell": cell}


def store() -> Store[Thing]:
    return Store(
        lambda raw: Thing(
            raw["metadata"]["name"], raw["metadata"]["uid"], int(raw["metadata"]["resourceVersion"]), raw["cell"]
        )
    )


def cells(old: Thing | None, new: Thing | None) -> list[str]:
    return sorted({found.cell for found in (old, new) if found is not None})


async def taken(queue: WorkQueue[str]) -> list[str]:
    keys = []
    while queue.depth:
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


async def test_appearing_changing_and_going_bring_the_keys_of_before_and_after() -> None:
    things, queue = store(), WorkQueue[str]()
    connect(things, cells, queue)
    things.apply("ADDED", thing("n1", 1, "a"))
    assert await taken(queue) == ["a"]
    things.apply("MODIFIED", thing("n1", 2, "b"))
    assert await taken(queue) == ["a", "b"]
    things.apply("DELETED", thing("n1", 3, "b"))
    assert await taken(queue) == ["b"]


async def test_a_change_that_nothing_depends_on_brings_no_key() -> None:
    things, queue = store(), WorkQueue[str]()
    connect(things, cells, queue)
    things.apply("ADDED", thing("n1", 1, "a"))
    await taken(queue)
    things.apply("MODIFIED", thing("n1", 2, "a"))
    assert queue.depth == 0


async def test_what_the_store_holds_already_counts_as_having_appeared() -> None:
    things, queue = store(), WorkQueue[str]()
    things.apply("ADDED", thing("n1", 1, "a"))
    connect(things, cells, queue)
    assert await taken(queue) == ["a"]
