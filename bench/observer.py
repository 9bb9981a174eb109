"""When something became visible to everybody: a watch on nodes that notes the moment."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager

from ebbtide.kube.client import Client
from ebbtide.kube.resources import NODES

Keys = Mapping[str, frozenset[str]]


class Observer:
    """The taint keys of every node that was seen so far."""

    def __init__(self) -> None:
        self.keys: dict[str, frozenset[str]] = {}
        self._waiting: list[tuple[Callable[[Keys], bool], asyncio.Future[float]]] = []
        self._synced = asyncio.Event()

    def when(self, condition: Callable[[Keys], bool]) -> "asyncio.Future[float]":
        """The loop time at which the condition holds first, beginning with now."""
        loop = asyncio.get_running_loop()
        moment: asyncio.Future[float] = loop.create_future()
        self._waiting.append((condition, moment))
        self._look()
        return moment

    def when_tainted(self, names: list[str], key: str, *, tainted: bool = True) -> "asyncio.Future[float]":
        """The loop time at which every one of the nodes has the taint, or has it no longer."""
        return self.when(lambda keys: all((key in keys.get(name, ())) is tainted for name in names))

    async def follow(self, client: Client, label_selector: str) -> None:
        """Watches until cancelled."""
        while True:
            events = client.watch(NODES, initial_events=True, timeout=3600, label_selector=label_selector)
            async with aclosing(events):
                async for event in events:
                    if event.ends_initial_events:
                        self._synced.set()
                    elif event.type != "BOOKMARK":
                        self._take(event.type, event.object)

    async def synced(self) -> None:
        await self._synced.wait()

    def _take(self, kind: str, raw: Mapping[str, object]) -> None:
        metadata, spec = raw["metadata"], raw["spec"]
        assert isinstance(metadata, dict)
        assert isinstance(spec, dict)
        self.keys[metadata["name"]] = frozenset(taint["key"] for taint in spec.get("taints", ()))
        if kind == "DELETED":
            del self.keys[metadata["name"]]
        self._look()

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        for condition, moment in tuple(self._waiting):
            if moment.done() or condition(self.keys):
                self._waiting.remove((condition, moment))
                if not moment.done():
                    moment.set_result(now)


@asynccontextmanager
async def observing(client: Client, label_selector: str) -> AsyncIterator[Observer]:
    """An observer that has seen everything there is."""
    observer = Observer()
    following = asyncio.ensure_future(observer.follow(client, label_selector))
    try:
        await observer.synced()
        yield observer
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
