"""Plan → requests to nodes, each valid only for a version of the node that says what was decided on.

`spec.taints` is an atomic list: a merge patch with a list of one would delete everybody else's taints. So each write is
a JSON patch that replaces `metadata.resourceVersion` by the one seen, which the API server answers with 409 if the
node has changed since; positions in the list are then known to be right. One request per node carries all its changes.
"""

import asyncio
import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ebbtide import vocabulary
from ebbtide.clock import Clock
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound, NotLeading
from ebbtide.kube.limits import Lane
from ebbtide.kube.patch import Operation, add, only_at, pointer, remove, remove_taints
from ebbtide.kube.resources import NODES
from ebbtide.kube.store import Store
from ebbtide.model import NodeFacts, format_time
from reconciler.engine.rereading import read_again
from reconciler.engine.together import together
from reconciler.rebalance.plan import Change, NodeWrite, Plan

# Wide enough that a hundred nodes take a few round trips, narrow enough to leave the API server's queue to others.
MOST_WRITES_AT_ONCE = 32
# A heartbeat may come between decision and write, seldom a second one; then somebody else is at work on the node.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan's writes.

    `refused` nodes have changed since the decision; `failed` pairs a node's name with the error.
    """

    written: tuple[NodeWrite, ...] = ()
    refused: tuple[str, ...] = ()
    failed: tuple[tuple[str, KubeError], ...] = ()

    @property
    def complete(self) -> bool:
        return not self.refused and not self.failed

    def refused_for_good(self, plan: Plan) -> tuple[NodeWrite, ...]:
        """Writes of the plan that the API server, or an admission policy behind it, will not have as they are."""
        names = {name for name, error in self.failed if isinstance(error, Invalid | Forbidden)}
        return tuple(write for write in plan.writes if write.node.name in names)


def patch_of(write: NodeWrite, rules: NodeRebalance, now: float) -> list[Operation]:
    """The JSON patch of a write: the version it relies on first, then taint and annotation."""
    version = only_at(write.node.resource_version)
    return [version, *_taint_operations(write, rules, now), *_annotation_operations(write, now)]


def _taint_operations(write: NodeWrite, rules: NodeRebalance, now: float) -> list[Operation]:
    key, taints = rules.prevent_ca_scale_up_taint_key, write.node.taints
    if write.prevent is Change.SET:
        taint = {"key": key, "value": str(int(now)), "effect": vocabulary.PREVENT_TAINT_EFFECT}
        return [add("/spec/taints/-", taint) if taints else add("/spec/taints", [taint])]
    if write.prevent is Change.REMOVE:
        return remove_taints(taints, lambda taint: (taint.key, taint.effect) == (key, vocabulary.PREVENT_TAINT_EFFECT))
    return []


def _annotation_operations(write: NodeWrite, now: float) -> list[Operation]:
    name = vocabulary.FIRST_SEEN_ANNOTATION
    path = pointer("metadata", "annotations", name)
    # With our clock behind the API server's, a time before the node's creation would be taken for an earlier node's.
    time = format_time(max(now if write.seen_at is None else write.seen_at, write.node.created))
    if write.first_seen is Change.SET and not write.node.has_annotations:
        return [add("/metadata/annotations", {name: time})]
    if write.first_seen is Change.SET:
        return [add(path, time)]
    if write.first_seen is Change.REMOVE:
        return [remove(path)]
    return []


class Act:
    """Carries out plans on nodes."""

    def __init__(self, client: Client, nodes: Store[NodeFacts], rules: NodeRebalance, clock: Clock) -> None:
        self._client = client
        self._nodes = nodes
        self._rules = rules
        self._clock = clock
        self._free = asyncio.Semaphore(MOST_WRITES_AT_ONCE)

    async def write(self, plan: Plan) -> Outcome:
        """Writes the signal nodes, whose state is the evidence, and only if that held all the others.

        Raises NotLeading if this process may not write any more, after the answers to what it has sent already.
        """
        evidence = await self._wave([write for write in plan.writes if write.signalled])
        rest = [write for write in plan.writes if not write.signalled]
        if evidence.refused:
            skipped = tuple(write.node.name for write in rest)
            return Outcome(evidence.written, evidence.refused + skipped, evidence.failed)
        return _sum((evidence, await self._wave(rest)))

    async def _wave(self, writes: Sequence[NodeWrite]) -> Outcome:
        async def bounded(write: NodeWrite) -> Outcome:
            async with self._free:
                return await self._one(write)

        return _sum(await together(map(bounded, writes)))

    async def _one(self, write: NodeWrite) -> Outcome:
        """Writes on the newest version that says what was decided on; a heartbeat changes nothing but the version.

        An answer that the node has changed, although it has not in anything that was decided on, is a failure: the
        server, or an admission policy behind it, will not have this write at all.
        """
        problem: KubeError | None = None
        tried = 0
        for _ in range(_ATTEMPTS):
            known = self._nodes.get(write.node.name)
            if known is None or known != write.node:
                return Outcome(refused=(write.node.name,))
            if isinstance(problem, Invalid) and known.resource_version == tried:
                break
            tried = known.resource_version
            try:
                await self._send(dataclasses.replace(write, node=known))
            except NotFound:
                return Outcome()
            except (Conflict, Invalid) as error:
                problem = error
                await read_again(self._client, self._nodes, known)
            except NotLeading:
                raise
            except KubeError as error:
                return Outcome(failed=((write.node.name, error),))
            else:
                return Outcome(written=(write,))
        return Outcome(failed=((write.node.name, problem),)) if problem is not None else Outcome()

    async def _send(self, write: NodeWrite) -> None:
        patch = patch_of(write, self._rules, self._clock.now())
        self._nodes.observe(await self._client.patch_json(NODES, write.node.name, patch, lane=Lane.URGENT))


def _sum(outcomes: Iterable[Outcome]) -> Outcome:
    parts = tuple(outcomes)
    return Outcome(
        tuple(write for part in parts for write in part.written),
        tuple(name for part in parts for name in part.refused),
        tuple(failure for part in parts for failure in part.failed),
    )
