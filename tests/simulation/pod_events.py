"""What can happen to pods and their volumes, one random event at a time; see `events`."""

from collections.abc import Sequence
from random import Random

from ebbtide import vocabulary
from ebbtide.sim import objects
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from ebbtide.sim.stored import Object
from tests.simulation import notation, volumes
from tests.simulation.draws import endangered_node
from tests.simulation.stage import Stage

QUIET_NAMESPACE = "sometimes-quiet"
# A claim without a volume, until `bind_claim`.
_LATE_CLAIM = "late"
_LATE_DISK = "disk-late"


def owner(kind: str, name: str = "owner") -> Object:
    """What a pod says of its controller. None of the cluster's own, which would remove pods that it did not make."""
    return {
        "apiVersion": "apps.example.com/v1",
        "kind": kind,
        "name": name,
        "uid": f"uid-of-{kind}-{name}",
        "controller": True,
    }


_OWNED: Object = {"metadata": {"ownerReferences": [owner("CloneSet")]}}


def _owned(**patch: Object) -> Object:
    return objects.changed(_OWNED, patch)


SHAPES: Sequence[Object] = (
    _OWNED,
    _owned(metadata={"labels": {"app": "held"}}),
    _owned(metadata={"annotations": {"sim.ebbtide/stopping": "200"}}),
    _owned(spec={"priority": 100}),
    _owned(spec={"tolerations": [{"operator": "Exists"}]}),
    _owned(spec={"tolerations": list(notation.BOTH_TOLERATED)}),
    _owned(spec={"tolerations": [notation.BOTH_TOLERATED[1]]}),
    _owned(status={"phase": "Succeeded"}),
    _owned(**volumes.using(_LATE_CLAIM)),
    {"metadata": {"ownerReferences": [owner("DaemonSet")]}},
    {},
    {"metadata": {"annotations": {vocabulary.MIRROR_POD_ANNOTATION: "x"}}},
    {"metadata": {"namespace": QUIET_NAMESPACE}},
    _owned(metadata={"namespace": QUIET_NAMESPACE}),
)
# How often a pod has a volume in its node's zone.
_DISKS = 0.3


def set_up(stage: Stage) -> None:
    """What these pods need to be there."""
    stage.cluster.create(
        objects.namespace(QUIET_NAMESPACE),
        *(each for zone in "abc" for each in (volumes.claim(f"disk-{zone}", f"disk-{zone}"), _disk(zone))),
        volumes.claim(_LATE_CLAIM),
        volumes.disk(_LATE_DISK, "a"),
        objects.budget("held", match={"app": "held"}, max_unavailable=0),
    )


def _disk(zone: str) -> Object:
    return volumes.disk(f"disk-{zone}", zone)


def appear(stage: Stage, rng: Random) -> str:
    node, name = endangered_node(stage, rng), f"p{rng.randrange(40)}"
    patch = _owned(**volumes.using(f"disk-{node[:1]}")) if rng.random() < _DISKS else rng.choice(SHAPES)
    namespace = patch.get("metadata", {}).get("namespace", "default")
    if not node or stage.storage.peek(PODS, name, namespace) is not None:
        return ""
    stage.pods(node, name, kind="", **patch)
    return f"pod {name} on {node}: {patch}"


def go(stage: Stage, rng: Random) -> str:
    pods = [pod for pod in stage.storage.scan(PODS) if not pod.deleting]
    if not pods:
        return ""
    gone = rng.choice(pods)
    stage.storage.delete(PODS, gone.name, gone.namespace, Deletion(grace_seconds=rng.choice([0, None])))
    return f"pod {gone.name} is deleted by somebody"


def bind_claim(stage: Stage, _: Random) -> str:
    body = stage.storage.get(PERSISTENT_VOLUME_CLAIMS, _LATE_CLAIM, "default")
    if body["spec"].get("volumeName"):
        return ""
    body["spec"]["volumeName"] = _LATE_DISK
    stage.storage.update(PERSISTENT_VOLUME_CLAIMS, body)
    return f"claim {_LATE_CLAIM} gets volume {_LATE_DISK}"
