"""Removals → requests, each valid only for the very version that was decided on.

An object that has changed meanwhile is read and decided anew, as often as it takes, so that nothing of others is lost
and a busy node is cleaned all the same.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ebbtide.cleanup.decide import Removal, Rules, removal_from
from ebbtide.cleanup.snapshot import Found, found
from ebbtide.kube.backoff import Backoff
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, KubeError, NotFound, NotSent, Unauthorized, Unreachable

# Well below what the client lets through at once: people and controllers use the API server too.
_WORKERS: Final = 16
# With the pauses below this is half a minute of trying, and the whole sweep is repeated after that.
_ATTEMPTS: Final = 40
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_FATAL: Final = (Unauthorized, Forbidden, NotSent)


@dataclass(slots=True)
class Account:
    """What has been done so far; it can be read at any moment, also after an interruption.

    `removed` is in the order of the answers; `failed` pairs an object with the last problem of the last sweep;
    `left` are objects that have marks of ours after the last sweep, most likely anew. `changed` is called each step.
    """

    removed: list[Removal] = field(default_factory=list)
    failed: list[tuple[Found, str]] = field(default_factory=list)
    left: list[Found] = field(default_factory=list)
    planned: int = 0
    changed: Callable[[], None] = lambda: None


class Act:
    """Carries removals out and keeps the account. `forced`: a Lease goes even while it is held anew."""

    def __init__(self, client: Client, rules: Rules, account: Account, *, forced: bool) -> None:
        self._client = client
        self._rules = rules
        self._account = account
        self._forced = forced

    async def remove(self, removals: Iterable[Removal]) -> None:
        """All of them, some at once.

        Raises Forbidden, Unauthorized, NoCredentials, and Unreachable once a server has been away for long; what else
        goes wrong is accounted.
        """
        todo = iter(removals)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    group.create_task(self._work(todo))
        except* KubeError as failures:
            raise failures.exceptions[0] from None

    async def _work(self, todo: Iterator[Removal]) -> None:
        for removal in todo:
            await self._one(removal)
            self._account.changed()

    async def _one(self, removal: Removal) -> None:
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        for _ in range(_ATTEMPTS):
            problem = await self._tried(removal)
            if problem is None:
                return
            await asyncio.sleep(pauses.next())
            again = await self._decided_anew(removal)
            if again is None:
                # Without an answer to the last request, it most likely was ours that arrived.
                if isinstance(problem, Unreachable):
                    self._account.removed.append(removal)
                return
            if self._was_taken(removal.found, again.found):
                taken = f"{again.found.holder} holds it now: a reconciler has started"
                self._account.failed.append((again.found, taken))
                return
            removal = again
        await self._last(removal)

    async def _last(self, removal: Removal) -> None:
        problem = await self._tried(removal)
        # A server that is away is away for every object: there is no use in trying each of them for as long.
        if isinstance(problem, Unreachable):
            raise problem
        if problem is not None:
            self._account.failed.append((removal.found, str(problem)))

    async def _tried(self, removal: Removal) -> KubeError | None:
        """None when the marks are gone, else the problem."""
        try:
            await self._send(removal)
        except NotFound:
            return None
        except _FATAL:
            raise
        except KubeError as error:
            return error
        self._account.removed.append(removal)
        return None

    async def _send(self, removal: Removal) -> None:
        at = removal.found
        if removal.whole:
            await self._client.delete(
                at.resource, at.name, namespace=at.namespace, uid=at.uid, resource_version=at.version
            )
        else:
            await self._client.patch_json(at.resource, at.name, removal.patch(), namespace=at.namespace)

    async def _decided_anew(self, removal: Removal) -> Removal | None:
        """The removal for the object as it is now, None when nothing is left; the old one while it cannot be read."""
        at = removal.found
        try:
            raw = await self._client.get(at.resource, at.name, namespace=at.namespace)
        except NotFound:
            return None
        except _FATAL:
            raise
        except KubeError:
            return removal
        return removal_from(found(at.resource, raw, self._rules.workers), self._rules)

    def _was_taken(self, before: Found, now: Found) -> bool:
        return bool(now.holder) and now.version != before.version and not self._forced
