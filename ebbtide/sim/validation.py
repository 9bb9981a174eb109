"""What the server refuses with 422: names, required fields, fields that never change.

A part of k8s.io/kubernetes `pkg/apis/*/validation`: what ebbtide writes or relies on being refused, in the same words.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ebbtide.sim import event_rules, kinds
from ebbtide.sim.kinds import Kind
from ebbtide.sim.refusals import Invalid, field_problem, required
from ebbtide.sim.stored import Object, Stored
from ebbtide.sim.syntax import Problem, finalizer_name, invalid_value, label_value, object_name, qualified_name, shown

_PERCENT_WORDS: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POD_MUTABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def check_new(kind: Kind, body: Object) -> None:
    """Raises Invalid with all problems of a new object."""
    name = body["metadata"].get("name", "")
    _refuse(kind, name, [*_metadata(body["metadata"]), *_content(kind, body)])


def check_changed(before: Stored, body: Object, subresource: str) -> None:
    """Raises Invalid with all problems of a changed object; those of `/status` and `/binding` are not looked for."""
    if subresource:
        return
    problems = [*_metadata(body["metadata"]), *_new_finalizers(before, body), *_content(before.kind, body)]
    problems += _frozen(before, body)
    _refuse(before.kind, before.name, problems)


def _refuse(kind: Kind, name: str, problems: list[Problem]) -> None:
    """The real server validates both kinds of event as its internal one, and says so."""
    if problems:
        raise Invalid.of(kinds.CORE_EVENTS if kind is kinds.EVENTS else kind, name, *problems)


# --- metadata -------------------------------------------------------------------------------------------------


def _metadata(metadata: Object) -> Iterator[Problem]:
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from object_name("metadata.name", name)
    for key, value in metadata.get("labels", {}).items():
        yield from qualified_name("metadata.labels", key)
        yield from label_value("metadata.labels", value)
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        yield from finalizer_name(f"metadata.finalizers[{index}]", finalizer)
    for key in metadata.get("annotations", {}):
        yield from qualified_name("metadata.annotations", key.lower())


def _new_finalizers(before: Stored, body: Object) -> Iterator[Problem]:
    known = before.body["metadata"].get("finalizers", ())
    added = [name for name in body["metadata"].get("finalizers", ()) if name not in known]
    if added and before.deleting:
        listed = ", ".join(f'"{name}"' for name in added)
        text = "no new finalizers can be added if the object is being deleted, found new finalizers "
        yield field_problem("metadata.finalizers", f"Forbidden: {text}[]string{{{listed}}}", "FieldValueForbidden")


# --- content --------------------------------------------------------------------------------------------------


def _content(kind: Kind, body: Object) -> Iterable[Problem]:
    check = _CHECKS.get(kind)
    return check(body) if check else ()


def _node(body: Object) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(body["spec"].get("taints", ())):
        # The real server's own slip: taints are in the specification.
        field, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        yield from qualified_name(f"{field}.key", key)
        yield from label_value(f"{field}.value", taint.get("value", ""))
        if not effect:
            yield required(f"{field}.effect")
        elif effect not in _EFFECTS:
            listed = ", ".join(f'"{known}"' for known in _EFFECTS)
            message = f'Unsupported value: "{effect}": supported values: {listed}'
            yield field_problem(f"{field}.effect", message, "FieldValueNotSupported")
        if (key, effect) in seen:
            value = shown({"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": None})
            text = f"Duplicate value: {value}: taints must be unique by key and effect pair"
            yield field_problem(field, text, "FieldValueDuplicate")
        seen.add((key, effect))


def _pod(body: Object) -> Iterator[Problem]:
    yield from _containers(body["spec"], "spec")


def _containers(spec: Object, field: str) -> Iterator[Problem]:
    if not spec.get("containers"):
        yield required(f"{field}.containers")
    names: set[str] = set()
    for index, container in enumerate(spec.get("containers", ())):
        name = container.get("name", "")
        if not name:
            yield required(f"{field}.containers[{index}].name")
        if not container.get("image"):
            yield required(f"{field}.containers[{index}].image")
        if name in names:
            yield field_problem(
                f"{field}.containers[{index}].name", f'Duplicate value: "{name}"', "FieldValueDuplicate"
            )
        names.add(name)


def _workload(body: Object) -> Iterator[Problem]:
    spec = body["spec"]
    selector, template = spec.get("selector"), spec.get("template", {})
    labels = template.get("metadata", {}).get("labels", {})
    if not selector:
        yield required("spec.selector")
    if not selector or any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        yield invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if spec.get("replicas", 0) < 0:
        yield invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    yield from _containers(template.get("spec", {}), "spec.template.spec")


def _budget(body: Object) -> Iterator[Problem]:
    spec = body.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        text = "minAvailable and maxUnavailable cannot be both set"
        yield invalid_value("spec", spec, text)
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name, 0)
        if isinstance(value, str) and not re.fullmatch(r"\d+%", value):
            yield invalid_value(f"spec.{name}", value, _PERCENT_WORDS)
        elif isinstance(value, int) and value < 0:
            yield invalid_value(f"spec.{name}", value, "must be greater than or equal to 0")


def _lease(body: Object) -> Iterator[Problem]:
    spec = body.get("spec", {})
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield invalid_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield invalid_value("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")


def _webhooks(body: Object) -> Iterator[Problem]:
    names: set[str] = set()
    for index, webhook in enumerate(body.get("webhooks", ())):
        field, name = f"webhooks[{index}]", webhook.get("name", "")
        if name.count(".") < 2:
            yield invalid_value(
                f"{field}.name", name, "should be a domain with at least three segments separated by dots"
            )
        if name in names:
            yield field_problem(f"{field}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
        names.add(name)
        if not webhook.get("sideEffects"):
            yield required(f"{field}.sideEffects", "must specify one of None, NoneOnDryRun")
        if ("url" in webhook.get("clientConfig", {})) == ("service" in webhook.get("clientConfig", {})):
            yield required(f"{field}.clientConfig", "exactly one of url or service is required")
        if not webhook.get("admissionReviewVersions"):
            yield required(f"{field}.admissionReviewVersions", "must specify one of v1, v1beta1")


_CHECKS: Final[dict[Kind, Callable[[Object], Iterable[Problem]]]] = {
    kinds.NODES: _node,
    kinds.PODS: _pod,
    kinds.STATEFUL_SETS: _workload,
    kinds.REPLICA_SETS: _workload,
    kinds.DEPLOYMENTS: _workload,
    kinds.DAEMON_SETS: _workload,
    kinds.POD_DISRUPTION_BUDGETS: _budget,
    kinds.LEASES: _lease,
    kinds.CORE_EVENTS: event_rules.core_problems,
    kinds.EVENTS: event_rules.problems,
    kinds.MUTATING_WEBHOOKS: _webhooks,
    kinds.VALIDATING_WEBHOOKS: _webhooks,
}


# --- what never changes ----------------------------------------------------------------------------------------


def _frozen(before: Stored, body: Object) -> Iterator[Problem]:
    kind, old, new = before.kind, before.body.get("spec", {}), body.get("spec", {})
    if kind is kinds.EVENTS:
        yield from event_rules.frozen(before.body, body)
    if kind is kinds.PODS and _fixed_pod(old) != _fixed_pod(new):
        text = f"Forbidden: pod updates may not change fields other than {_POD_MUTABLE}"
        yield field_problem("spec", text, "FieldValueForbidden")
    for name in _FIXED.get(kind, ()):
        if old.get(name) != new.get(name):
            yield invalid_value(f"spec.{name}", new.get(name), "field is immutable")
    if kind is kinds.NODES and old.get("providerID") and old["providerID"] != new.get("providerID"):
        yield invalid_value("spec.providerID", None, "field cannot be modified once set")


# Fields of the specification that never change.
_FIXED: Final[dict[Kind, tuple[str, ...]]] = {
    kinds.STATEFUL_SETS: ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"),
    kinds.REPLICA_SETS: ("selector",),
    kinds.DEPLOYMENTS: ("selector",),
    kinds.DAEMON_SETS: ("selector",),
}


def _without(spec: Object, names: Iterable[str]) -> Object:
    left = set(names)
    return {key: value for key, value in spec.items() if key not in left}


def _fixed_pod(spec: Object) -> Object:
    fixed = _without(spec, ("containers", "initContainers", "activeDeadlineSeconds", "tolerations"))
    for name in ("containers", "initContainers"):
        fixed[name] = [_without(container, ("image",)) for container in spec.get(name, ())]
    return fixed
