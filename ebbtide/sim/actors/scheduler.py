"""The scheduler: every pending pod in turn gets the node that `placement` finds, or the condition that says why not."""

from collections.abc import Mapping
from random import Random
from typing import Any, Final, Never

from ebbtide.sim.actors.placement import Placement, place
from ebbtide.sim.actors.reaction import react
from ebbtide.sim.actors.rooms import View, claim_names, finished, view
from ebbtide.sim.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from ebbtide.sim.storage import Storage, Write
from ebbtide.sim.stored import Object

Raw = Mapping[str, Any]

# The scheduler's word to the volume binder: provision this claim where that node can reach it.
SELECTED_NODE_ANNOTATION: Final = "volume.kubernetes.io/selected-node"

_NAME: Final = "default-scheduler"
_WRITES: Final = Write("kube-scheduler")
_STATUS: Final = Write("kube-scheduler", "status")


def current_view(storage: Storage) -> View:
    """What placing depends on, as it is stored now."""
    return view(
        (node.body for node in storage.scan(NODES)),
        (pod.body for pod in storage.scan(PODS)),
        (claim.body for claim in storage.scan(PERSISTENT_VOLUME_CLAIMS)),
        (volume.body for volume in storage.scan(PERSISTENT_VOLUMES)),
    )


def queue_order(pod: Raw) -> tuple[int, str, str, str]:
    """Higher priority first, then the older pod, then by name."""
    metadata = pod["metadata"]
    return -(pod["spec"].get("priority") or 0), metadata["creationTimestamp"], metadata["namespace"], metadata["name"]


def is_pending(pod: Raw) -> bool:
    """Whether the pod waits for this scheduler: not bound, gated, deleted, finished or another scheduler's."""
    spec = pod["spec"]
    theirs = spec.get("schedulerName", _NAME) != _NAME
    bound = spec.get("nodeName") or spec.get("schedulingGates")
    return not (theirs or bound or pod["metadata"].get("deletionTimestamp") or finished(pod))


def unbound_claims(pod: Raw, around: View) -> tuple[str, ...]:
    """The pod's claims that have no volume yet."""
    found = ((name, around.claims.get((pod["metadata"]["namespace"], name))) for name in claim_names(pod))
    return tuple(name for name, claim in found if claim is not None and not claim["spec"].get("volumeName"))


def with_refusal(pod: Object, message: str, now: str) -> Object:
    """The pod with the condition PodScheduled False, reason Unschedulable."""
    status = pod.get("status") or {}
    others = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    standing = [each for each in status.get("conditions") or () if each["type"] == "PodScheduled"]
    unchanged = bool(standing) and standing[0]["status"] == "False"
    refusal = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": standing[0]["lastTransitionTime"] if unchanged else now,
    }
    return {**pod, "status": {"phase": "Pending", **status, "conditions": [*others, refusal]}}


class Scheduler:
    """Looks at all pending pods whenever a pod, node, claim or volume has changed."""

    def __init__(self, storage: Storage, rng: Random) -> None:
        self._storage = storage
        self._rng = rng

    async def run(self) -> Never:
        await react(self._storage, self.step, NODES, PODS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES)

    def step(self) -> None:
        """One scheduling cycle for every pending pod; each sees where those before it went."""
        pending = sorted((pod.body for pod in self._storage.scan(PODS) if is_pending(pod.body)), key=queue_order)
        if not pending:
            return
        around = current_view(self._storage)
        for pod in pending:
            placement = place(pod, around, self._rng)
            if placement.node:
                self._assign(pod, placement, around)
                around = around.placed(pod, placement.node)
            else:
                self._refuse(pod, placement.message)

    def _assign(self, pod: Raw, placement: Placement, around: View) -> None:
        metadata = pod["metadata"]
        unbound = unbound_claims(pod, around)
        for claim in unbound:
            self._select(metadata["namespace"], claim, placement.node)
        if not unbound:
            self._storage.bind(metadata["namespace"], metadata["name"], placement.node, metadata["uid"])

    def _select(self, namespace: str, claim: str, node: str) -> None:
        """Asks for a volume near the node; once it is bound, the pod's next cycle is held to where it lies."""

        def change(body: Object) -> Object:
            body["metadata"].setdefault("annotations", {}).setdefault(SELECTED_NODE_ANNOTATION, node)
            return body

        self._storage.modify(PERSISTENT_VOLUME_CLAIMS, claim, namespace, change, _WRITES)

    def _refuse(self, pod: Raw, message: str) -> None:
        metadata, now = pod["metadata"], self._storage.now()
        self._storage.modify(
            PODS, metadata["name"], metadata["namespace"], lambda body: with_refusal(body, message, now), _STATUS
        )
