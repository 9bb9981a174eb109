"""Who hears of changes: watches take notes inside of a write, actors are told after it."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Self

from ebbtide.sim.kinds import Kind
from ebbtide.sim.stored import Event

Handler = Callable[[Event], None]


class Listener:
    """Calls back at once, inside of every write of one kind: for those who only take notes."""

    def __init__(self, handler: Handler, kind: Kind, all_listeners: "list[Listener]") -> None:
        self._handler = handler
        self._kind = kind
        self._all = all_listeners

    def offer(self, event: Event) -> None:
        if event.kind is self._kind:
            self._handler(event)

    def open(self) -> Self:
        self._all.append(self)
        return self

    def close(self) -> None:
        """No more events; a second time is no matter."""
        if self in self._all:
            self._all.remove(self)


class Subscription:
    """Delivers events to one handler, in order, never inside of the write that caused them."""

    def __init__(self, handler: Handler, kinds: Iterable[Kind], all_subscriptions: "list[Subscription]") -> None:
        self._handler = handler
        self._kinds = frozenset(kinds)
        self._all = all_subscriptions
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Event] = []
        self._open = False

    def offer(self, event: Event) -> None:
        if self._kinds and event.kind not in self._kinds:
            return
        if not self._waiting:
            self._loop.call_soon(self._deliver)
        self._waiting.append(event)

    def open(self) -> Self:
        self._all.append(self)
        self._open = True
        return self

    def close(self) -> None:
        """No more events, also none of those that wait; a second time is no matter."""
        if self._open:
            self._open = False
            self._all.remove(self)

    def _deliver(self) -> None:
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            if self._open:
                self._handler(event)
