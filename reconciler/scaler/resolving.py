"""Names that the cluster's DNS has to know before a client is sent there: clients give up on one that does not exist.

DNS hears of a pod a moment after we do, and answers from what it remembers: that there is no such name, too. So a name
is asked for only when its pod answers already, and for longer than DNS remembers a miss.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

log = structlog.stdlib.get_logger(__name__)

# Raises OSError for a name that nobody knows (yet).
Resolve = Callable[[str], Awaitable[object]]

# CoreDNS remembers for five seconds that a name of the cluster does not exist.
RESOLVED_WITHIN: Final = 10.0
_RESOLVE_AGAIN: Final = 0.25


async def by_dns(host: str) -> object:
    """Asks the system's resolver. Raises OSError."""
    return await asyncio.get_running_loop().getaddrinfo(host, None)


async def until_known(host: str, resolve: Resolve) -> None:
    """Returns when the name can be resolved here, or after a while: where we cannot clients may all the same."""
    try:
        async with asyncio.timeout(RESOLVED_WITHIN):
            while True:
                with suppress(OSError):
                    await resolve(host)
                    return
                await asyncio.sleep(_RESOLVE_AGAIN)
    except TimeoutError:
        log.warning("name of a worker cannot be resolved here, its client is sent there all the same", host=host)


class Names:
    """Those of pods, by their UIDs: each is waited for once, by however many come for it."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._known: set[str] = set()
        self._waiting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def pending(self, uid: str) -> bool:
        """Whether the pod's name is being waited for."""
        return uid in self._waiting

    async def known(self, uid: str, host: str) -> None:
        """Returns when clients may be sent to the pod by that name."""
        if uid in self._known:
            return
        async with self._waiting[uid]:
            if uid not in self._known:
                try:
                    await until_known(host, self._resolve)
                    self._known.add(uid)
                finally:
                    self._waiting.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The pod has gone."""
        self._known.discard(uid)
