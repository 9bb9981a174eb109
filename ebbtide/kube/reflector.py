"""Keeps a store like the server: a first list, then a watch from the list's version, for ever.

The list is streamed where the server can (`sendInitialEvents`, Kubernetes 1.34), since then no more than one object
is held raw at a time; elsewhere it comes in small pages. A version that the server has compacted away is never asked
for again. Nothing is assumed to be well: a stream that says nothing for longer than the server's bookmarks are apart
is dropped, and every failure is told to `on_problem`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from math import isfinite
from typing import Final, Generic, Never, TypeVar, Unpack

import structlog

from ebbtide.kube.backoff import Backoff, jittered
from ebbtide.kube.calls import Selection
from ebbtide.kube.client import SILENT_AFTER, Client
from ebbtide.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Silent,
    Unauthorized,
    Unreachable,
)
from ebbtide.kube.limits import LONGEST_PAUSE
from ebbtide.kube.resources import Resource
from ebbtide.kube.store import Store, Versioned, World
from ebbtide.kube.stream import ADDED, BOOKMARK, WatchEvent
from ebbtide.kube.traffic import ending_of

T = TypeVar("T", bound=Versioned)
Events = AsyncGenerator[WatchEvent, None]

# 5,000 nodes come in 0.8 s; a server that is not through by then has not understood the question.
INITIAL_EVENTS_WITHIN: Final = 60.0
# A page is held raw as a whole. The peak for 5,000 nodes of 15 KB: 6 MB above the process with pages of 50, 8 MB with
# pages of 100, 23 MB with pages of 500; the time is the same.
PAGE_SIZE: Final = 50
# What a person has to put right does not come right sooner by asking often.
_FOR_A_PERSON: Final = (Unauthorized, Forbidden, NotFound)
_PAUSE_FOR_A_PERSON: Final = 30.0
# apierrors.NewTooLargeResourceVersionError: the server's history is shorter than ours, it was restored from a backup.
_AHEAD_OF_SERVER: Final = "ResourceVersionTooLarge"

_log = structlog.get_logger(__name__)


class Reflector(Generic[T]):
    """Keeps `store` like the objects of `resource` that the selectors choose.

    `on_problem` is called with every failure (a KubeError; not with Gone, which is part of life) before the pause
    that follows it; what it raises ends `run`. Seconds: `silent_after` without a word a stream is dropped and resumed,
    `initial_within` a streamed list has to be complete.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        store: Store[T],
        *,
        on_problem: Callable[[KubeError], None] | None = None,
        silent_after: float = SILENT_AFTER,
        initial_within: float = INITIAL_EVENTS_WITHIN,
        backoff: Backoff | None = None,
        **which: Unpack[Selection],
    ) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._on_problem = on_problem or self._warn
        self._silent_after = silent_after
        self._initial_within = initial_within
        self._backoff = backoff or Backoff(0.5, 30.0)
        self._which = which
        self._version: int | None = None
        self._streams_lists = True
        self._progress = False
        self._silent_before = False
        self._running = False

    @property
    def name(self) -> str:
        """For messages and supervision."""
        return f"watch of {self.kind}"

    @property
    def kind(self) -> str:
        """The plural name of what is watched."""
        return self._resource.plural

    def age(self) -> float | None:
        """Seconds since the server was last heard of; None while this does not run, and before the first word."""
        age = self._store.age()
        return age if self._running and isfinite(age) else None

    async def run(self) -> Never:
        """Ends only by cancellation, or by what `on_problem` or a handler of the store raises.

        May be run again afterwards: what has happened meanwhile is in a new list, before which the store is not synced.
        """
        self._running, self._version = True, None
        self._store.expect_list()
        try:
            await self._keep()
        finally:
            self._running = False

    async def _keep(self) -> Never:
        while True:
            self._progress = False
            problem = await self._attempt()
            self._client.traffic.endings[self.kind, ending_of(problem)] += 1
            if problem is not None and not isinstance(problem, Gone):
                self._on_problem(problem)
            await asyncio.sleep(self._pause(problem))

    async def _attempt(self) -> KubeError | None:
        """Follows the server until the stream ends; what ended it, None when it ended as agreed."""
        try:
            await self._follow()
        except KubeError as error:
            if self._is_past_resuming(error):
                self._version = None
            return error
        finally:
            self._store.unfollow()
        return None

    def _is_past_resuming(self, error: KubeError) -> bool:
        if isinstance(error, Silent):
            # Resumed once and again not a word: a server whose history ends before our version waits for it to come.
            again, self._silent_before = self._silent_before, True
            return again
        return isinstance(error, Gone) or (isinstance(error, ApiError) and _AHEAD_OF_SERVER in error.causes)

    def _pause(self, problem: KubeError | None) -> float:
        if isinstance(problem, _FOR_A_PERSON):
            return jittered(_PAUSE_FOR_A_PERSON)
        if self._progress and (problem is None or isinstance(problem, Gone)):
            return 0.0
        asked = problem.retry_after if isinstance(problem, ApiError) else None
        return max(self._backoff.next(), min(asked or 0.0, LONGEST_PAUSE))

    async def _follow(self) -> None:
        if self._version is None and self._streams_lists and await self._follow_streamed_list():
            return
        if self._version is None:
            await self._list_pages()
        async with aclosing(self._watch()) as events:
            await self._live(events)

    async def _follow_streamed_list(self) -> bool:
        """First list and watch in one stream; False when no complete list came of it, so that pages are needed."""
        try:
            async with aclosing(self._watch(initial_events=True)) as events:
                async with asyncio.timeout(self._initial_within):
                    complete = await self._list_stream(events)
                if complete:
                    self._store.follow()
                    await self._live(events)
                return complete
        except (Invalid, TimeoutError) as error:
            _log.info("no streamed lists here", resource=self._resource.plural, reason=str(error))
            self._streams_lists = False
        except (Unreachable, Gone):
            if self._version is not None:
                raise
        return False

    async def _list_stream(self, events: Events) -> bool:
        world = self._store.gather()
        async for event in events:
            self._heard()
            if event.ends_initial_events:
                self._listed(world, event.resource_version)
                return True
            if event.type != BOOKMARK:
                world.apply(event.type, event.object)
        return False

    async def _list_pages(self) -> None:
        world = self._store.gather()
        version = 0
        listed = self._client.pages(self._resource, shape=self._store.shape, page_size=PAGE_SIZE, **self._which)
        async with aclosing(listed) as pages:
            async for page in pages:
                self._heard()
                version = page.resource_version
                # Let go one by one: this page would otherwise stay until the next one is there in full.
                while page.items:
                    world.apply(ADDED, page.items.pop())
        self._listed(world, version)

    def _listed(self, world: World[T], version: int) -> None:
        self._version = version
        self._store.swap(world, version)

    async def _live(self, events: Events) -> None:
        async for event in events:
            self._heard()
            version = event.resource_version
            if event.type == BOOKMARK:
                self._store.advance(version)
            else:
                self._store.apply(event.type, event.object)
            self._version = max(self._version or 0, version)

    def _watch(self, *, initial_events: bool = False) -> Events:
        return self._client.watch(
            self._resource,
            resource_version=self._version,
            initial_events=initial_events,
            silent_after=self._silent_after,
            shape=self._store.shape,
            opened=self._store.touch if initial_events else self._opened,
            **self._which,
        )

    def _opened(self) -> None:
        """Heard of, but no progress yet: a server that opens streams only to end them is not asked in a hot loop."""
        self._store.touch()
        self._store.follow()

    def _heard(self) -> None:
        self._store.touch()
        self._backoff.reset()
        self._progress = True
        self._silent_before = False

    def _warn(self, problem: KubeError) -> None:
        _log.warning("watch interrupted", resource=self._resource.plural, error=str(problem))
