"""Every permission that the worker scaler uses, all but two of them in the workers' namespace."""

from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.permissions import Need
from ebbtide.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    PDBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)


def needs_of_scaler(settings: WorkerScaler, *, dry_run: bool) -> list[Need]:
    """What is looked at, and what is written unless it is a dry run."""
    return _reads(settings.namespace) + ([] if dry_run else _writes(settings.namespace))


def _reads(namespace: str) -> list[Need]:
    follow, get = ("list", "watch"), ("get",)
    zones = "to see which workers are tied to a blocked zone"
    return [
        *_in(namespace, PODS, follow, "to know the workers"),
        *_in(namespace, STATEFUL_SETS, ("get", *follow), "to know the workers and what they are made from"),
        *_in(namespace, PERSISTENT_VOLUME_CLAIMS, follow, "to know the volumes of workers"),
        *_in(namespace, PDBS, get, "to see that busy workers are not evicted"),
        *_in(namespace, CONFIG_MAPS, get, "to know what the shared pool has promised"),
        *_in(namespace, EVENTS, ("list",), "to say why a worker's pod cannot be made", essential=False),
        # Cluster-wide, beside those of zone rebalance: without them workers wait where their volumes cannot be had.
        *(Need(verb, each, zones, essential=False) for each in _OF_VOLUMES for verb in follow),
    ]


_OF_VOLUMES = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES)


def _writes(namespace: str) -> list[Need]:
    return [
        *_in(namespace, STATEFUL_SETS, ("create", "patch", "delete"), "to make, resize and remove workers"),
        *_in(namespace, SERVICES, ("get", "list", "create"), "to give workers their names"),
        *_in(namespace, PODS, ("get",), "to look again at a worker that does not run, before it is removed"),
        *_in(namespace, PODS, ("patch",), "to mark busy workers"),
        *_in(namespace, PODS, ("delete",), "to have idle workers made anew elsewhere", essential=False),
        *_in(namespace, PERSISTENT_VOLUME_CLAIMS, ("delete",), "to remove volumes without a worker"),
        # A server-side apply that creates is asked for both.
        *_in(namespace, PDBS, ("create", "patch"), "to keep busy workers from being evicted"),
        *_in(namespace, CONFIG_MAPS, ("create", "patch"), "to note what the shared pool has promised"),
    ]


def _in(
    namespace: str, resource: Resource, verbs: tuple[str, ...], purpose: str, *, essential: bool = True
) -> list[Need]:
    return [Need(verb, resource, purpose, namespace=namespace, essential=essential) for verb in verbs]
