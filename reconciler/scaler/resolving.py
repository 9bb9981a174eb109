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

from ebbtide.kube.store import Store
from reconciler.scaler.pods import WorkerPod

log = structlog.stdlib.get_logger(__name__)

# Raises OSError for a name that nobody knows (yet).
Resolve = Callable[[str], Awaitable[object]]

# CoreDNS remembers for five seconds that a name of the cluster does not exist.
RESOLVED_WITHIN: Final = 10.0
_RESOLVE_AGAIN: Final = 0.25


async def by_dns(host: str) -> object:
    """Asks the system's resolver. Raises OSError."""
    return await asyncio.get_running_loop().getaddrinfo(host, None)


class Names:
    """Those of pods: each is waited for once in the life of its pod, by however many come for it.

    `used` says whether clients are sent to names at all, and not to addresses.
    """

    def __init__(self, pods: Store[WorkerPod], resolve: Resolve, *, used: bool) -> None:
        self._resolve = resolve
        self._used = used
        self._known: set[str] = set()
        self._waiting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        pods.subscribe(self._pod_changed)

    def known(self, pod: WorkerPod) -> bool:
        """Whether clients may be sent to the pod, as far as its name goes."""
        return not self._used or pod.uid in self._known

    def pending(self, pod: WorkerPod) -> bool:
        """Whether the pod's name is being waited for."""
        return pod.uid in self._waiting

    async def wait(self, pod: WorkerPod, host: str) -> None:
        """Returns when clients may be sent to the pod by that name."""
        if self.known(pod):
            return
        async with self._waiting[pod.uid]:
            if not self.known(pod):
                try:
                    await _until_known(host, self._resolve)
                    self._known.add(pod.uid)
                finally:
                    self._waiting.pop(pod.uid, None)

    def _pod_changed(self, old: WorkerPod | None, new: WorkerPod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._known.discard(old.uid)


async def _until_known(host: str, resolve: Resolve) -> None:
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
