"""What the cloud does to spot nodes, for scenarios: the rebalance signal, the two-minute notice, the false alarm.

The marks are those of aws-node-termination-handler in IMDS mode with `taintNode`: a taint whose value says nothing of
time, and a cordon where it is configured so.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ebbtide.sim.actors.cloud import Cloud
from ebbtide.sim.kinds import NODES
from ebbtide.sim.storage import Storage, Write
from ebbtide.sim.stored import Object
from ebbtide.vocabulary import SIGNAL_TAINT_KEY

# AWS takes a spot instance this long after its interruption notice; seconds.
NOTICE: Final = 120.0

_WRITES: Final = Write("aws-node-termination-handler")


class Spot:
    """Sends signals and takes nodes away. Nodes that are gone already are no error."""

    def __init__(self, storage: Storage, cloud: Cloud) -> None:
        self._storage = storage
        self._cloud = cloud

    def recommend(self, node: str, *, cordon: bool = True, value: str = "") -> None:
        """A rebalance recommendation for the node. Without a `value` it gets one made of its UID."""
        live = self._storage.peek(NODES, node)
        if live is not None:
            taint = {
                "key": SIGNAL_TAINT_KEY,
                "value": value or f"rebalance-recommendation-{live.uid[:6]}",
                "effect": "NoSchedule",
            }
            self._change(node, lambda body: _signalled(body, taint, cordon=cordon))

    def withdraw(self, node: str) -> None:
        """The alarm was false: the signal's taint goes, and the cordon with it."""
        self._change(node, _without_signal)

    async def interrupt(self, node: str, notice: float = NOTICE) -> None:
        """The interruption notice: returns when the node has been taken, unless another of its name has come since."""
        live = self._storage.peek(NODES, node)
        if live is None:
            return
        await asyncio.sleep(notice)
        still = self._storage.peek(NODES, node)
        if still is not None and still.uid == live.uid:
            self._cloud.terminate(node)

    def _change(self, node: str, change: Callable[[Object], Object]) -> None:
        if self._storage.peek(NODES, node) is not None:
            self._storage.modify(NODES, node, "", change, _WRITES)


def _signalled(node: Object, taint: Object, *, cordon: bool) -> Object:
    spec = node.setdefault("spec", {})
    kept = [each for each in spec.get("taints") or () if each["key"] != taint["key"]]
    spec["taints"] = [*kept, taint]
    if cordon:
        spec["unschedulable"] = True
    return node


def _without_signal(node: Object) -> Object:
    spec = {key: value for key, value in node["spec"].items() if key not in {"taints", "unschedulable"}}
    kept = [taint for taint in node["spec"].get("taints") or () if taint["key"] != SIGNAL_TAINT_KEY]
    return {**node, "spec": {**spec, "taints": kept} if kept else spec}
