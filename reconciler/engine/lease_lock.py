"""The Lease object as a lock: what is known of it, taking it, keeping it, letting it go.

Every write depends on the resourceVersion that was read, so of two candidates one gets a conflict, and an answer that
was lost is found out by reading again.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from ebbtide.clock import Clock
from ebbtide.kube import lease_record
from ebbtide.kube.client import Client
from ebbtide.kube.errors import AlreadyExists, Conflict, NotFound
from ebbtide.kube.lease_record import Claim, Record
from ebbtide.kube.limits import Lane
from ebbtide.kube.owner import Owner
from ebbtide.kube.resources import LEASES

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Candidacy:
    """Who stands for which Lease. `annotations` are on the Lease while this process holds it; the Deployment `owner`,
    where there is one, owns it."""

    namespace: str
    lease: str
    identity: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""


class LeaseLock:
    """One candidate's view of one Lease. `duration` is how long (seconds) others wait for this candidate.

    Attribute: `seen` is the record as it was last read or written, None before that or while there is no Lease.
    """

    def __init__(self, client: Client, clock: Clock, candidacy: Candidacy, duration: float) -> None:
        self.seen: Record | None = None
        self._client = client
        self._clock = clock
        self._candidacy = candidacy
        self._duration = duration
        self._claim = Claim(candidacy.identity, duration, candidacy.annotations)
        self._owner = Owner(client, candidacy.namespace, candidacy.owner)
        self._seen_at = float("-inf")

    @property
    def own(self) -> bool:
        """Whether the record names this candidate."""
        return self.seen is not None and self.seen.holder == self._candidacy.identity

    @property
    def taken(self) -> bool:
        """Whether the record names another candidate."""
        return self.seen is not None and self.seen.holder not in ("", self._candidacy.identity)

    def left(self) -> float:
        """Seconds until the record may be taken over, counted from when it was first seen like that."""
        duration = self.seen.duration if self.seen is not None else 0.0
        return self._seen_at + duration - asyncio.get_running_loop().time()

    async def take(self) -> bool:
        """Acquires or renews; whether this candidate holds the Lease now. Raises KubeError."""
        # Its own record can be renewed without reading first, unless somebody has written meanwhile.
        if self.seen is not None and self.own:
            with suppress(Conflict, NotFound):
                return await self._hold(self.seen)
        await self.look()
        if self.seen is None:
            return await self._create()
        if self.taken and self.left() > 0:
            return False
        with suppress(Conflict):
            return await self._hold(self.seen)
        return False

    async def look(self) -> None:
        """Reads the Lease. Raises KubeError."""
        name, namespace = self._candidacy.lease, self._candidacy.namespace
        try:
            self._see(await self._client.get(LEASES, name, namespace=namespace, lane=Lane.URGENT))
        except NotFound:
            self.seen = None

    async def let_go(self) -> None:
        """Lets the next candidate in at once, where this one holds the Lease. Raises KubeError."""
        try:
            await self._release()
        except Conflict:
            # A renewal that was cut off by the end of the work may have arrived all the same.
            await self.look()
            await self._release()

    async def _release(self) -> None:
        if self.seen is not None and self.own:
            await self._replace(self._claim.released(self.seen, self._clock.now()))

    async def _hold(self, before: Record) -> bool:
        owned = replace(before, metadata=await self._owner.adopt(before.metadata))
        await self._replace(self._claim.held(owned, self._clock.now()))
        return True

    async def _create(self) -> bool:
        namespace = self._candidacy.namespace
        first = self._claim.first(self._candidacy.lease, self._clock.now())
        body = lease_record.body(replace(first, metadata=await self._owner.adopt(first.metadata)))
        try:
            self._see(await self._client.create(LEASES, body, namespace=namespace, lane=Lane.URGENT))
        except AlreadyExists:
            return False
        except NotFound as error:
            words = (
                f"namespace {namespace!r} of the lease does not exist: create it, or set POD_NAMESPACE to one that does"
            )
            raise NotFound(error.what, error.code, error.reason, words) from error
        return True

    async def _replace(self, record: Record) -> None:
        name, namespace = self._candidacy.lease, self._candidacy.namespace
        body = lease_record.body(record)
        self._see(await self._client.replace(LEASES, name, body, namespace=namespace, lane=Lane.URGENT))

    def _see(self, raw: Mapping[str, Any]) -> None:
        record = lease_record.read(raw, self._duration)
        if self.seen is None or record.holder != self.seen.holder:
            log.info("lease holder", holder=record.holder or "none")
        if record != self.seen:
            self._seen_at = asyncio.get_running_loop().time()
        self.seen = record
