"""Nodes as heavy as real ones: 15 KB, most of it the images that the kubelet lists (50 by default)."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from bench.bare import Bare
from ebbtide import vocabulary
from ebbtide.kube.resources import NODES
from ebbtide.model import format_time
from tests.controlplane.world import FOREIGN_TAINT, World

Object = dict[str, Any]

_IMAGES = 50
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
_CREATED_AT_ONCE = 16
# A thousand of them become Ready in about a minute on two cores.
_READY_WITHIN = 300.0


def node(name: str, labels: Mapping[str, str]) -> Object:
    """A node of about 13 KB, to which the API server adds field managers, conditions and the rest."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**_labels(name), **labels}, "annotations": _annotations()},
        "spec": {"providerID": f"aws:///eu-central-1a/i-{crc32(name.encode()):017x}", "taints": [FOREIGN_TAINT]},
        "status": {"images": [_image(number) for number in range(_IMAGES)]},
    }


def ready(name: str, labels: Mapping[str, str]) -> Object:
    """A node that is Ready without any kubelet; no control plane with controllers believes that for long."""
    body = node(name, labels)
    body["status"]["conditions"] = [_condition(kind, "False") for kind in _PRESSURES] + [_condition("Ready", "True")]
    return body


def cell(group: str, zone: str) -> dict[str, str]:
    """The labels that put a node into a cell."""
    return {vocabulary.NODE_GROUP_LABEL: group, vocabulary.ZONE_LABEL: zone}


async def create(world: World, bare: Bare, names: Sequence[str], labels: Mapping[str, str]) -> None:
    """Creates the nodes and returns when all of them are Ready and open for pods."""
    bodies = [node(name, {"tests.ebbtide/world": world.name, **labels}) for name in names]
    await bare.all([bare.post(NODES.path(""), body) for body in bodies], width=_CREATED_AT_ONCE)
    await world.wait_until(lambda: _all_open(world, names), f"{len(names)} nodes are Ready", seconds=_READY_WITHIN)


async def _all_open(world: World, names: Iterable[str]) -> bool:
    missing = set(names)
    async for raw in world.client.list(NODES, stale_ok=True):
        if _is_open(raw):
            missing.discard(raw["metadata"]["name"])
    if missing:
        await asyncio.sleep(1.0)
    return not missing


def _is_open(raw: Object) -> bool:
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in raw.get("status", {}).get("conditions", ())
    )
    return ready and not any(taint["key"].startswith("node.kubernetes.io/") for taint in raw["spec"].get("taints", ()))


def _labels(name: str) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": "m7g.4xlarge",
        "beta.kubernetes.io/os": "linux",
        "eks.amazonaws.com/capacityType": "SPOT",
        "eks.amazonaws.com/nodegroup-image": "ami-0123456789abcdef0",
        "failure-domain.beta.kubernetes.io/region": "eu-central-1",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m7g.4xlarge",
        "topology.kubernetes.io/region": "eu-central-1",
    }


def _annotations() -> dict[str, str]:
    return {
        "csi.volume.kubernetes.io/nodeid": '{"ebs.csi.aws.com":"i-0123456789abcdef0"}',
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }


def _condition(kind: str, status: str) -> Object:
    moment = format_time(time.time() // 1)
    words = {"reason": f"KubeletSays{kind}", "message": f"kubelet has looked at {kind} and says {status}"}
    return {"type": kind, "status": status, "lastHeartbeatTime": moment, "lastTransitionTime": moment, **words}


def _image(number: int) -> Object:
    registry = "602401143452.dkr.ecr.eu-central-1.amazonaws.com/platform"
    digest = f"{number:02d}" * 32
    return {
        "names": [f"{registry}/service-{number}@sha256:{digest}", f"{registry}/service-{number}:v1.{number}.0"],
        "sizeBytes": 100_000_000 + number,
    }
