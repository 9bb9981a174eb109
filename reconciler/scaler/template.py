"""The StatefulSet that workers are copied from: whether it can be used, and what a worker's pod takes from it. Pure.

The copy keeps what the operator has set (images, further containers, volumes, affinity, fields of newer clusters that
nobody here knows) and replaces what would tie it to the original: labels, node pins, resources, volumes of its own.
Of what the admission webhook would add it carries the pinning to its node group already, where one is known. The soft
spread of the shared pool, and the exclusion of blocked zones, it leaves to the webhook.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.errors import EbbtideError
from ebbtide.exclusion.affinity import node_choice
from ebbtide.exclusion.fields import mapping, sequence
from ebbtide.model import CellLabels, Taint, read_toleration
from reconciler.scaler.size import Size

Raw = Mapping[str, Any]
Object = dict[str, Any]

# The taint of a node group, as its nodes are made with.
_GROUP_EFFECT: Final = "NoSchedule"


class UnusableTemplateError(EbbtideError):
    """Nothing can be copied from it; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template that can be used. `spec` is that of the StatefulSet, as it was read; nothing changes it."""

    namespace: str
    name: str
    uid: str
    spec: Raw


@dataclass(frozen=True, slots=True)
class Wear:
    """What marks a worker's pod: its labels and annotations, and the directory that its volumes are mounted below."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    directory: str


def read_template(raw: Raw) -> Template:
    """Raises UnusableTemplateError with everything that is missing."""
    metadata = mapping(raw, "metadata")
    try:
        lacking = tuple(_lacking(mapping(raw, "spec")))
    except TypeError as error:
        lacking = (str(error),)
    if lacking:
        raise UnusableTemplateError(f"template {metadata.get('name')} has no {', no '.join(lacking)}")
    return Template(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        spec=raw["spec"],
    )


def pod_template(template: Template, wear: Wear, size: Size, cells: CellLabels) -> Object:
    """The pod template of a worker of that size. `cells` says which label names a node group."""
    original = mapping(template.spec, "template")
    spec: Object = deepcopy(dict(mapping(original, "spec")))
    spec["containers"] = [*_containers(spec["containers"], wear, size)]
    group = _pin(spec, size, cells)
    labels = {**wear.labels, **({vocabulary.NODE_GROUP_PIN_LABEL: group} if group else {})}
    annotations = {**mapping(original, "metadata", "annotations"), **wear.annotations}
    metadata: Object = {"labels": labels, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": spec}


def claim_templates(template: Template, labels: Mapping[str, str], size: Size) -> list[Object]:
    """The template's own claims, and one for each worker; all with these labels.

    The workers' claims are of the class and access modes of the template's first.
    """
    kept = [claim for claim in sequence(template.spec, "volumeClaimTemplates") if not _is_workers(claim, size)]
    own = [_labelled(claim["metadata"], claim["spec"], labels) for claim in kept]
    first = mapping(kept[0] if kept else sequence(template.spec, "volumeClaimTemplates")[0], "spec")
    like = {key: first[key] for key in ("accessModes", "storageClassName", "volumeMode") if key in first}
    amount = {"resources": {"requests": {"storage": f"{size.storage_gb}Gi"}}}
    workers = [_labelled({"name": name}, {**like, **amount}, labels) for name in _worker_names(size)]
    return [*own, *workers]


# --- what it lacks ------------------------------------------------------------------------------------------------


def _lacking(spec: Raw) -> Iterable[str]:
    containers = sequence(mapping(spec, "template", "spec"), "containers")
    if not containers:
        yield "container"
    else:
        if not sequence(containers[0], "env"):
            yield "environment variables in its first container"
        if not sequence(containers[0], "volumeMounts"):
            yield "volume mounts in its first container"
    if not sequence(spec, "volumeClaimTemplates"):
        yield "volume claims"


# --- containers ---------------------------------------------------------------------------------------------------


def _containers(containers: Iterable[Raw], wear: Wear, size: Size) -> Iterable[Object]:
    """The first one does the work. A liveness probe would kill a worker that is too busy to answer it."""
    for number, container in enumerate(containers):
        kept = {key: value for key, value in container.items() if key != "livenessProbe"}
        yield kept if number else _worker(kept, wear, size)


def _worker(container: Object, wear: Wear, size: Size) -> Object:
    mounts = container["volumeMounts"]
    below = f"{str(mounts[0]['mountPath']).rstrip('/')}/{wear.directory}"
    names = _worker_names(size)
    volumes = [{"name": name, "mountPath": f"{below}/worker-{number}"} for number, name in enumerate(names)]
    return {
        **container,
        "env": _environment(container["env"], size),
        "resources": size.resources(),
        "volumeMounts": [*(mount for mount in mounts if mount.get("name") not in names), *volumes],
    }


def _environment(given: Iterable[Raw], size: Size) -> list[Raw]:
    ours = {vocabulary.WORKER_ENV: "true", vocabulary.WORKER_NUM_ENV: str(size.workers)}
    kept = [variable for variable in given if variable.get("name") not in ours]
    return [*kept, *({"name": name, "value": value} for name, value in ours.items())]


# --- volumes ------------------------------------------------------------------------------------------------------


def _worker_names(size: Size) -> tuple[str, ...]:
    return tuple(f"worker{number}" for number in range(size.workers))


def _is_workers(claim: Raw, size: Size) -> bool:
    return mapping(claim, "metadata").get("name") in _worker_names(size)


def _labelled(metadata: Raw, spec: Raw, labels: Mapping[str, str]) -> Object:
    kept = {key: deepcopy(metadata[key]) for key in ("name", "annotations") if metadata.get(key)}
    both = {**(metadata.get("labels") or {}), **labels}
    return {"metadata": {**kept, "labels": both}, "spec": deepcopy(dict(spec))}


# --- where it may stand -------------------------------------------------------------------------------------------


def _pin(spec: Object, size: Size, cells: CellLabels) -> str:
    """Pins the pod to its node group, and returns that group: the size's own, else the one of the template's pods."""
    if size.selector is not None:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), size.selector[0]: size.selector[1]}
    named = frozenset((size.node_group,)) if size.node_group else node_choice(spec, cells).groups()
    if len(named) != 1:
        return ""
    group = next(iter(named))
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), cells.group: group}
    _tolerate(spec, group, cells.group, replacing=bool(size.node_group))
    return group


def _tolerate(spec: Object, group: str, key: str, *, replacing: bool) -> None:
    """Adds a toleration for the group's taint unless one covers it.

    One for another group stays, since the template means it; with `replacing` it goes: the pod is of this group now.
    """
    given = list(sequence(spec, "tolerations"))
    read = [read_toleration(entry) for entry in given]
    if any(entry.covers(Taint(key, group, _GROUP_EFFECT)) for entry in read):
        return
    other = [entry.key == key and entry.operator != "Exists" and entry.value != group for entry in read]
    if any(other) and not replacing:
        return
    kept = [raw for raw, is_other in zip(given, other, strict=True) if not is_other]
    spec["tolerations"] = [*kept, {"key": key, "operator": "Equal", "value": group, "effect": _GROUP_EFFECT}]
