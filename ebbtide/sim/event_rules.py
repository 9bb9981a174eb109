"""What the server demands of events (k8s.io/kubernetes `pkg/apis/core/validation/events.go`).

`events.k8s.io/v1` is strict and never changes but for its series; `v1` is held only to what old clients knew. (The
real server keeps both in one place; the embedded one keeps them apart.)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ebbtide.sim.refusals import field_problem, required
from ebbtide.sim.syntax import Problem, invalid_value, qualified_name

_LIMITS: Final = {"reportingInstance": 128, "action": 128, "reason": 128}
# The internal names, which refusals use.
_INTERNAL: Final = {"note": "message", "regarding": "involvedObject"}
_NOTE_LIMIT: Final = 1024
_CLUSTER_NAMESPACES: Final = frozenset({"default", "kube-system"})
_DEPRECATED: Final = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource")
_CHANGES: Final = frozenset({"apiVersion", "kind", "metadata", "series"})
Body = Mapping[str, Any]


def problems(body: Body) -> Iterator[Problem]:
    """All problems of an event of `events.k8s.io/v1`."""
    yield from _common(body, body.get("regarding", {}), body.get("note", ""), "reportingController")
    yield from _series(body.get("series"))
    if not body.get("eventTime"):
        yield required("eventTime")
    if body.get("type") not in {"Normal", "Warning"}:
        yield invalid_value("type", "", f"has invalid value: {body.get('type', '')}")
    for name in _DEPRECATED:
        if body.get(name):
            yield invalid_value(name.removeprefix("deprecated").lower(), "", "needs to be unset")


def core_problems(body: Body) -> Iterator[Problem]:
    """All problems of an event of `v1`."""
    yield from _common(body, body.get("involvedObject", {}), body.get("message", ""), "reportingComponent")


def frozen(before: Body, body: Body) -> Iterator[Problem]:
    """What an update of an event may not touch."""
    for name in sorted(set(before) | set(body)):
        if name not in _CHANGES and before.get(name) != body.get(name):
            yield invalid_value(_INTERNAL.get(name, name), body.get(name), "field is immutable")


def _common(body: Body, about: Body, note: str, controller_field: str) -> Iterator[Problem]:
    namespace, regarded = body["metadata"].get("namespace", ""), about.get("namespace", "")
    if not body.get("eventTime"):
        if namespace != regarded and (regarded or namespace != "default"):
            yield invalid_value("involvedObject.namespace", regarded, "does not match event.namespace")
        return
    if not regarded and namespace not in _CLUSTER_NAMESPACES:
        yield invalid_value("involvedObject.namespace", regarded, "does not match event.namespace")
    controller = body.get("reportingController") or body.get("reportingComponent") or ""
    if not controller:
        yield required(controller_field)
    yield from qualified_name(controller_field, controller)
    for name, limit in _LIMITS.items():
        if not body.get(name):
            yield required(name)
        elif len(body[name]) > limit:
            yield invalid_value(name, "", f"can have at most {limit} characters")
    if len(note) > _NOTE_LIMIT:
        yield invalid_value("message", "", f"can have at most {_NOTE_LIMIT} characters")


def _series(series: Body | None) -> Iterator[Problem]:
    if series is None:
        return
    if series.get("count", 0) <= 1:
        yield field_problem("series.count", 'Invalid value: "": should be at least 2')
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")
