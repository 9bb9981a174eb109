"""Claims and volumes in the shapes that make a pod unable to follow."""

from ebbtide import vocabulary
from ebbtide.sim.stored import Object

# Block storage names the zone by a label of its own, which is worth the same.
_DISK_ZONE = "topology.ebs.csi.aws.com/zone"


def claim(name: str, volume: str = "") -> Object:
    """A claim that is bound to a volume; without one it waits for it."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def disk(name: str, zone: str) -> Object:
    """A volume that only one zone reaches."""
    source = {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name}}
    return _volume(name, _DISK_ZONE, zone, source)


def local(name: str, node: str) -> Object:
    """A volume that only one node reaches."""
    return _volume(name, vocabulary.HOSTNAME_LABEL, node, {"local": {"path": "/mnt/disk"}})


def using(claim_name: str) -> Object:
    """What a pod needs to say to use the claim, as a patch."""
    return {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]}}


def _volume(name: str, key: str, value: str, source: Object) -> Object:
    expression = {"key": key, "operator": "In", "values": [value]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nodeAffinity": affinity, **source}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
