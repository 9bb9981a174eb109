"""Names that the cluster's DNS has to know before a client is sent there: clients give up on one that does not exist.

DNS hears of a pod a moment after we do, and answers from what it remembers: that there is no such name, too. So a name
is asked for only when its pod answers already, and for longer than DNS remembers a miss.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Wait:
    """For one pod's name: so many have come for it, of whom one asks; it is `over` when any of them may go on."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    over: bool = False


class Names:
    """Those of pods: each is waited for once in the life of its pod, by however many come for it.

    `used` says whether clients are sent to names at all, and not to addresses.
    """

    def __init__(self, pods: Store[WorkerPod], resolve: Resolve, *, used: bool) -> None:
        self._pods = pods
        self._resolve = resolve
        self._used = used
        self._known: set[str] = set()
        self._waits: dict[str, _Wait] = {}
        pods.subscribe(self._pod_changed)

    def known(self, pod: WorkerPod) -> bool:
        """Whether clients may be sent to the pod, as far as its name goes."""
        return not self._used or pod.uid in self._known

    def pending(self, pod: WorkerPod) -> bool:
        """Whether the pod's name is being waited for."""
        wait = self._waits.get(pod.uid)
        return wait is not None and not wait.over

    async def wait(self, pod: WorkerPod, host: str) -> None:
        """Returns when clients may be sent to the pod by that name."""
        if self.known(pod):
            return
        wait = self._waits.setdefault(pod.uid, _Wait())
        wait.waiting += 1
        try:
            async with wait.lock:
                if not wait.over:
                    await _until_known(host, self._resolve)
                    self._end(wait, pod)
        finally:
            wait.waiting -= 1
            if not wait.waiting:
                del self._waits[pod.uid]

    def _end(self, wait: _Wait, pod: WorkerPod) -> None:
        """What has gone meanwhile will not be told of again, and is not remembered."""
        wait.over = True
        here = self._pods.get(pod.key)
        if here is not None and here.uid == pod.uid:
            self._known.add(pod.uid)

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
