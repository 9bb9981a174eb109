"""Where the state is had: from a reconciler directly, from the leader by way of the API server, or from the nodes."""

from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from ebbtide.clock import Clock
from ebbtide.config import Settings
from ebbtide.connecting import words_of
from ebbtide.errors import ClusterAccessError, EbbtideError
from ebbtide.kube.errors import Forbidden, KubeError
from ebbtide.kube.lease_record import Record
from reconciler import state
from reconciler.inquiry import Inquiry, read_state
from reconciler.scaler.describe import WorkersNow

# A reconciler writes the state of 5,000 nodes in a tenth of a second; one that takes longer than this is stuck.
_PATIENCE: Final = aiohttp.ClientTimeout(total=10.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A document of the state, and what its reader should know about how it came about."""

    document: dict[str, Any]
    notes: tuple[str, ...] = ()


async def from_reconciler(url: str) -> Answer:
    """Asks the reconciler that serves there. Raises ClusterAccessError when it does not answer, EbbtideError when it
    answers something else."""
    address = f"{url.rstrip('/')}/api/v1/state"
    try:
        async with aiohttp.ClientSession(timeout=_PATIENCE) as session, session.get(address) as answer:
            status, body = answer.status, await answer.read()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ClusterAccessError(f"{address} cannot be reached: {words_of(error, urlsplit(url).netloc)}") from error
    try:
        return Answer(read_state(status, body))
    except EbbtideError as error:
        raise EbbtideError(f"{address} cannot be used: {error}") from error


async def from_cluster(inquiry: Inquiry, settings: Settings, clock: Clock) -> Answer:
    """Asks the leader, and reads the nodes when that is not possible. Raises KubeError when they cannot be read."""
    leader, notes = await _leader(inquiry, settings)
    if leader is not None and leader.holder:
        try:
            return Answer(await inquiry.state_of_leader(leader))
        except (KubeError, EbbtideError) as error:
            notes = (f"the leader {leader.holder} cannot be asked, so this is read off the nodes: {error}",)
    nodes = (await inquiry.nodes()).values()
    rules, now = settings.node_rebalance, clock.now()
    known = replace(state.NOTHING_KNOWN, workers=WorkersNow(run=settings.worker_scaler.run))
    document = state.document(nodes, leader, known, rules, now)
    if not document["cells"]:
        labels = f"{rules.node_group_label} (node group) and {rules.zone_label} (zone)"
        notes = (*notes, f"no node has both labels, {labels}")
    return Answer(document, notes)


async def _leader(inquiry: Inquiry, settings: Settings) -> tuple[Record | None, tuple[str, ...]]:
    """The lease, and what to say where it names nobody."""
    lease = f"lease {settings.leader_election.lease_name} in namespace {inquiry.home}"
    try:
        record = await inquiry.leader()
    except Forbidden as error:
        return None, (f"who leads is unknown, so this is read off the nodes: {error}",)
    if record is None:
        return None, (f"no reconciler has run with {lease} (a dry run takes none), so this is read off the nodes",)
    if not record.holder:
        return record, (f"no reconciler leads ({lease} is free; a dry run takes none), so this is read off the nodes",)
    return record, ()
