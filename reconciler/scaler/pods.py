"""What the scaler reads of the objects in the workers' namespace: pods, sets, claims. Frozen facts from raw JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from ebbtide import vocabulary
from ebbtide.exclusion.fields import mapping, sequence
from ebbtide.model import Owner, parse_time, read_owner

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """A pod that runs tasks, or may.

    `set_name` is the StatefulSet that controls it ("" for none), `ordinal` its number there (-1 for none). `started`
    tells one life of its first container from the next: it changes with every restart and is "" while none runs.
    `ever_ran` is set once a container has started, whatever it is now. `pool` and `busy` are our labels.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int = field(compare=False)
    created: float
    set_name: str
    set_uid: str
    ordinal: int
    revision: str
    pool: str
    busy: bool
    node: str
    ip: str
    phase: str
    ready_since: float | None
    deleting: bool
    started: str
    ever_ran: bool
    unschedulable: str
    claims: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def ready(self) -> bool:
        """Running, Ready and not on its way out."""
        return self.phase == "Running" and self.ready_since is not None and not self.deleting


@dataclass(frozen=True, slots=True)
class WorkerSet:
    """A StatefulSet. `annotations` are those under `ebbtide/`; `pool` is our label on the set itself, "" without.

    `revision` is the one that new pods are made of, "" until its controller has said so; `when_scaled` what becomes of
    the claims of ordinals that are scaled away, "" where the server does not know the field.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int = field(compare=False)
    created: float
    generation: int
    replicas: int
    pool: str
    annotations: Mapping[str, str]
    deleting: bool
    service: str
    revision: str = ""
    when_scaled: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class WorkerClaim:
    """A claim in the workers' namespace, with its labels under `ebbtide/`; `volume` is "" while it is not bound."""

    namespace: str
    name: str
    uid: str
    resource_version: int = field(compare=False)
    created: float
    labels: Mapping[str, str]
    volume: str
    deleting: bool

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def worker_pod(raw: Raw) -> WorkerPod:
    """Reads a Pod object."""
    metadata, spec, status = raw["metadata"], mapping(raw, "spec"), mapping(raw, "status")
    labels = mapping(metadata, "labels")
    owner = _controller(metadata)
    first = next(iter(sequence(status, "containerStatuses")), {})
    running = mapping(first, "state", "running")
    return WorkerPod(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        created=parse_time(metadata.get("creationTimestamp")) or 0.0,
        set_name=owner.name,
        set_uid=owner.uid,
        ordinal=_ordinal(metadata["name"], owner.name),
        revision=str(labels.get("controller-revision-hash") or ""),
        pool=intern(str(labels.get(vocabulary.POOL_LABEL) or "")),
        busy=labels.get(vocabulary.BUSY_LABEL) == "true",
        node=str(spec.get("nodeName") or ""),
        ip=str(status.get("podIP") or ""),
        phase=intern(str(status.get("phase") or "")),
        ready_since=_since(status, "Ready"),
        deleting=metadata.get("deletionTimestamp") is not None,
        started=f"{first.get('containerID') or ''} {running.get('startedAt') or ''}".strip() if running else "",
        ever_ran=_ever_ran(status),
        unschedulable=_unschedulable(status),
        claims=tuple(_claims(spec)),
    )


def worker_set(raw: Raw) -> WorkerSet:
    """Reads a StatefulSet object."""
    metadata, spec = raw["metadata"], mapping(raw, "spec")
    replicas = spec.get("replicas")
    return WorkerSet(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        created=parse_time(metadata.get("creationTimestamp")) or 0.0,
        generation=int(metadata.get("generation") or 0),
        replicas=1 if replicas is None else int(replicas),
        pool=intern(str(mapping(metadata, "labels").get(vocabulary.POOL_LABEL) or "")),
        annotations=_ours(mapping(metadata, "annotations")),
        deleting=metadata.get("deletionTimestamp") is not None,
        service=str(spec.get("serviceName") or ""),
        revision=str(mapping(raw, "status").get("updateRevision") or ""),
        when_scaled=str(mapping(spec, "persistentVolumeClaimRetentionPolicy").get("whenScaled") or ""),
    )


def worker_claim(raw: Raw) -> WorkerClaim:
    """Reads a PersistentVolumeClaim object."""
    metadata = raw["metadata"]
    return WorkerClaim(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        created=parse_time(metadata.get("creationTimestamp")) or 0.0,
        labels=_ours(mapping(metadata, "labels")),
        volume=str(mapping(raw, "spec").get("volumeName") or ""),
        deleting=metadata.get("deletionTimestamp") is not None,
    )


def _ours(words: Raw) -> Mapping[str, str]:
    return {key: str(value) for key, value in words.items() if key.startswith("ebbtide/")}


def _controller(metadata: Raw) -> Owner:
    owner, _ = read_owner(metadata)
    return owner if owner is not None and owner.kind == "StatefulSet" else Owner("", "", "")


def _ordinal(pod: str, set_name: str) -> int:
    number = pod.removeprefix(f"{set_name}-") if set_name else ""
    return int(number) if number.isascii() and number.isdigit() else -1


def _since(status: Raw, kind: str) -> float | None:
    for condition in sequence(status, "conditions"):
        if condition.get("type") == kind and condition.get("status") == "True":
            return parse_time(condition.get("lastTransitionTime")) or 0.0
    return None


def _unschedulable(status: Raw) -> str:
    """The scheduler's message while it finds no node, else ""."""
    for condition in sequence(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "Unschedulable")
    return ""


def _ever_ran(status: Raw) -> bool:
    for container in sequence(status, "containerStatuses"):
        past = (mapping(container, "state"), mapping(container, "lastState"))
        if any(state.get("running") or state.get("terminated") for state in past):
            return True
    return False


def _claims(spec: Raw) -> list[str]:
    sources = (mapping(volume, "persistentVolumeClaim") for volume in sequence(spec, "volumes"))
    return [str(source["claimName"]) for source in sources if source.get("claimName")]
