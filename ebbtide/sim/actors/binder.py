"""Volumes for claims: a zonal disk where the first consumer's node is, gone with its claim.

Behaves as a storage class with `WaitForFirstConsumer` and reclaim policy `Delete`, such as zonal block storage of a
cloud, and as the protection that keeps a claim while a pod uses it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Never

from ebbtide.sim.actors.reaction import react
from ebbtide.sim.actors.rooms import claim_names, finished
from ebbtide.sim.actors.scheduler import SELECTED_NODE_ANNOTATION
from ebbtide.sim.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from ebbtide.sim.storage import Change, Storage, Write
from ebbtide.sim.stored import Object, Stored
from ebbtide.vocabulary import ZONE_LABEL

Raw = Mapping[str, Any]

PROTECTION: Final = "kubernetes.io/pvc-protection"

_WRITES: Final = Write("kube-controller-manager")
_STATUS: Final = Write("kube-controller-manager", "status")


def volume_for(claim: Raw, node: Raw) -> Object:
    """The volume that is made for a claim near a node: reachable from the node's zone, from anywhere without one."""
    spec, metadata = claim["spec"], claim["metadata"]
    volume: Object = {
        "metadata": {"name": f"pvc-{metadata['uid']}"},
        "spec": {
            "capacity": dict((spec.get("resources") or {}).get("requests") or {}),
            "accessModes": list(spec.get("accessModes") or ()),
            "storageClassName": spec.get("storageClassName", ""),
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{metadata['uid']}"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
        "status": {"phase": "Bound"},
    }
    zone = (node["metadata"].get("labels") or {}).get(ZONE_LABEL)
    if zone:
        near = {"matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": [zone]}]}
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [near]}}
    return volume


def claims_in_use(pods: Iterable[Raw]) -> frozenset[tuple[str, str]]:
    """(namespace, name) of the claims of unfinished pods that have a node."""
    return frozenset(
        (pod["metadata"]["namespace"], name)
        for pod in pods
        if pod["spec"].get("nodeName") and not finished(pod)
        for name in claim_names(pod)
    )


class Binder:
    """Binds, protects and removes. Acts on claims that the scheduler has given a node."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def run(self) -> Never:
        await react(self._storage, self.step, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, NODES)

    def step(self) -> None:
        used = claims_in_use(pod.body for pod in self._storage.scan(PODS))
        for claim in list(self._storage.scan(PERSISTENT_VOLUME_CLAIMS)):
            self._protect(claim, used)
            if not claim.body["spec"].get("volumeName") and not claim.deleting:
                self._provision(claim)
        self._remove_unclaimed()

    def _provision(self, claim: Stored) -> None:
        selected = (claim.body["metadata"].get("annotations") or {}).get(SELECTED_NODE_ANNOTATION)
        if not selected:
            return
        node = self._storage.peek(NODES, selected)
        if node is None:
            self._modify(claim, _unselected)
            return
        volume = volume_for(claim.body, node.body)
        self._storage.create(PERSISTENT_VOLUMES, volume, Write("kube-controller-manager", keep_status=True))
        self._modify(claim, lambda body: _bound(body, volume["metadata"]["name"]))
        granted = {
            "phase": "Bound",
            "accessModes": volume["spec"]["accessModes"],
            "capacity": volume["spec"]["capacity"],
        }
        self._storage.modify(
            PERSISTENT_VOLUME_CLAIMS, claim.name, claim.namespace, lambda body: {**body, "status": granted}, _STATUS
        )

    def _protect(self, claim: Stored, used: frozenset[tuple[str, str]]) -> None:
        held = PROTECTION in (claim.body["metadata"].get("finalizers") or ())
        if claim.deleting and held and claim.key not in used:
            self._modify(claim, _unprotected)
        elif not claim.deleting and not held:
            self._modify(claim, _protected)

    def _remove_unclaimed(self) -> None:
        live = {claim.uid for claim in self._storage.scan(PERSISTENT_VOLUME_CLAIMS)}
        for volume in list(self._storage.scan(PERSISTENT_VOLUMES)):
            spec = volume.body["spec"]
            claimed_by = (spec.get("claimRef") or {}).get("uid")
            released = claimed_by is not None and claimed_by not in live
            if released and spec.get("persistentVolumeReclaimPolicy") == "Delete" and not volume.deleting:
                self._storage.delete(PERSISTENT_VOLUMES, volume.name)

    def _modify(self, claim: Stored, change: Change) -> None:
        self._storage.modify(PERSISTENT_VOLUME_CLAIMS, claim.name, claim.namespace, change, _WRITES)


def _bound(claim: Object, volume: str) -> Object:
    claim["spec"]["volumeName"] = volume
    return claim


def _unselected(claim: Object) -> Object:
    del claim["metadata"]["annotations"][SELECTED_NODE_ANNOTATION]
    return claim


def _protected(claim: Object) -> Object:
    claim["metadata"].setdefault("finalizers", []).append(PROTECTION)
    return claim


def _unprotected(claim: Object) -> Object:
    claim["metadata"]["finalizers"].remove(PROTECTION)
    return claim
