"""Claims and volumes in the shapes that make a pod unable to follow."""

from ebbtide.sim.stored import Object

# Block storage names the zone by a label of its own, which is worth the same.
_DISK_ZONE = "topology.ebs.csi.aws.com/zone"


def claim(name: str, volume: str = "") -> Object:
    """A claim that is bound to a volume; without one it waits for it."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def disk(name: str, zone: str) -> Object:
    """A volume that only one zone reaches."""
    expression = {"key": _DISK_ZONE, "operator": "In", "values": [zone]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def using(claim_name: str) -> Object:
    """What a pod needs to say to use the claim, as a patch."""
    return {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]}}
