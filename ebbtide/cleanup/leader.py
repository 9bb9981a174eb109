"""Whether a reconciler leads: it would put back at once what is removed.

A Lease says who held it, not whether that process lives, and its times are another machine's. So, as a candidate would,
it is watched for its own duration by our clock: renewed within that, somebody leads.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ebbtide.cleanup.snapshot import leases
from ebbtide.config.process import LeaderElection
from ebbtide.kube import lease_record
from ebbtide.kube.client import Client
from ebbtide.kube.lease_record import Record

_POLL: Final = 0.5


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads, and by which Lease (`namespace/name`)."""

    identity: str
    lease: str


async def leader(client: Client, election: LeaderElection, tell: Callable[[str], None]) -> Leader | None:
    """Who leads in any namespace, None when nobody does. Takes up to the duration of a Lease. Raises KubeError."""
    first = await _held(client, election)
    if not first:
        return None
    duration = max(record.duration for record in first.values())
    holders = ", ".join(f"{record.holder} holds lease {where}" for where, record in first.items())
    tell(f"{holders}: watching for up to {duration:.0f} s whether it is renewed")
    until = asyncio.get_running_loop().time() + duration
    while asyncio.get_running_loop().time() < until:
        await asyncio.sleep(_POLL)
        for where, record in (await _held(client, election)).items():
            # A Record compares without its metadata: an annotation that somebody adds is no renewal.
            if record != first.get(where):
                return Leader(record.holder, where)
    return None


async def _held(client: Client, election: LeaderElection) -> dict[str, Record]:
    """The Leases of that name that say a holder, by `namespace/name`."""
    listed = await leases(client, election.lease_name)
    records = {
        f"{raw['metadata']['namespace']}/{raw['metadata']['name']}": lease_record.read(raw, election.lease_duration)
        for raw in listed
    }
    return {where: record for where, record in records.items() if record.holder}
