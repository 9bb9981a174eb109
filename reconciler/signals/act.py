"""Stores a notice on its node: one patch, valid for the version that was decided on."""

import asyncio
from typing import Final
from weakref import WeakValueDictionary

from ebbtide.kube.client import Client
from ebbtide.kube.errors import Conflict, Invalid, NotFound
from ebbtide.kube.limits import Lane
from ebbtide.kube.resources import NODES
from ebbtide.kube.store import Store
from ebbtide.model import NodeFacts
from reconciler.engine.rereading import read_again
from reconciler.signals.decide import Result, decide
from reconciler.signals.envelope import InstanceNotice
from reconciler.signals.snapshot import Instances

# As in rebalance: a heartbeat between decision and write, seldom a second one.
_ATTEMPTS: Final = 3


class Act:
    """Of several notices about one instance the first is stored before the next is looked at."""

    def __init__(self, client: Client, nodes: Store[NodeFacts], signal_key: str) -> None:
        self._client = client
        self._nodes = nodes
        self._instances = Instances.following(nodes)
        self._signal_key = signal_key
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def store(self, told: InstanceNotice) -> tuple[Result, NodeFacts | None]:
        """What became of it, and the node. Raises KubeError: then nothing is known to be stored."""
        lock = self._locks.setdefault(told.instance, asyncio.Lock())
        async with lock:
            return await self._store(told)

    async def _store(self, told: InstanceNotice) -> tuple[Result, NodeFacts | None]:
        for remaining in reversed(range(_ATTEMPTS)):
            node = self._instances.node(told.instance)
            verdict = decide(node, told.notice, self._signal_key)
            if node is None or not verdict.patch:
                return verdict.result, node
            try:
                written = await self._client.patch_json(NODES, node.name, verdict.patch, lane=Lane.URGENT)
            except NotFound:
                return Result.UNKNOWN_INSTANCE, node
            except (Conflict, Invalid):
                if not remaining:
                    raise
                await read_again(self._client, self._nodes, node)
            else:
                self._nodes.observe(written)
                return Result.STORED, node
        raise AssertionError("the last attempt returns or raises")
