"""Label and field selectors, as query parameters and as `LabelSelector` objects."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from ebbtide.sim import kinds
from ebbtide.sim.kinds import Kind
from ebbtide.sim.refusals import BadRequest
from ebbtide.sim.stored import Stored

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]
Test = Callable[[Stored], bool]

_REQUIREMENT: Final = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<key0>[^\s=!,()]+)"
    r"|(?P<key1>[^\s=!,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)"
    r"|(?P<key2>[^\s=!,()]+)\s*(?:(?P<sign>==|=|!=)\s*(?P<value>[^\s=!,()]*))?)\s*(?:,|$)"
)
_FIELD: Final = re.compile(r"(?P<path>[^=!,]+)(?P<sign>==|=|!=)(?P<value>[^,]*)")

# Beside metadata.name and metadata.namespace, which every kind has (`pkg/apis/core/v1/conversion.go` of Kubernetes).
_FIELDS: Final[dict[Kind, frozenset[str]]] = {
    kinds.PODS: frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    kinds.NODES: frozenset({"spec.unschedulable"}),
    kinds.NAMESPACES: frozenset({"status.phase"}),
    kinds.REPLICA_SETS: frozenset({"status.replicas"}),
    kinds.SECRETS: frozenset({"type"}),
    kinds.CORE_EVENTS: frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
    kinds.EVENTS: frozenset(
        {
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "reason",
            "reportingController",
            "type",
        }
    ),
}
_BOOLEANS: Final = frozenset({"spec.unschedulable", "spec.hostNetwork"})


def selected(kind: Kind, labels: str, fields: str) -> Test | None:
    """The test that both query parameters make together, None when all objects pass; raises BadRequest."""
    if not labels and not fields:
        return None
    label_test, field_tests = label_selector(labels), _field_tests(kind, fields)

    def test(stored: Stored) -> bool:
        if not label_test(stored.body["metadata"].get("labels") or {}):
            return False
        return all(passes(stored) for passes in field_tests)

    return test


@lru_cache(maxsize=256)
def label_selector(text: str) -> LabelTest:
    """Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k`; raises BadRequest."""
    tests: list[LabelTest] = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise BadRequest(f'unable to parse requirement: found "{text[position:]}"')
        tests.append(_requirement(match))
        position = match.end()
    return lambda labels: all(test(labels) for test in tests)


def matches(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether a `LabelSelector` object selects these labels: None selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(entry)(labels) for entry in selector.get("matchExpressions") or ())


def _expression(entry: Mapping[str, Any]) -> LabelTest:
    key, values = entry["key"], frozenset(entry.get("values") or ())
    match entry["operator"]:
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case other:
            raise BadRequest(f'"{other}" is not a valid label selector operator')


def _requirement(match: re.Match[str]) -> LabelTest:
    key = match["key0"] or match["key1"] or match["key2"]
    if match["absent"]:
        return lambda labels: key not in labels
    if match["operator"]:
        values = [value.strip() for value in match["values"].split(",")]
        operator = "In" if match["operator"] == "in" else "NotIn"
        return _expression({"key": key, "operator": operator, "values": values})
    if match["sign"] is None:
        return lambda labels: key in labels
    value = match["value"]
    if match["sign"] == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _field_tests(kind: Kind, text: str) -> list[Test]:
    return [_field_test(kind, term) for term in text.split(",") if term]


def _field_test(kind: Kind, term: str) -> Test:
    match = _FIELD.fullmatch(term.strip())
    if match is None:
        raise BadRequest(f"invalid selector: '{term}'; can't understand '{term}'")
    path, wanted, value = match["path"], match["sign"] != "!=", match["value"]
    if path not in {"metadata.name", "metadata.namespace"} and path not in _FIELDS.get(kind, ()):
        if kind in _FIELDS:
            raise BadRequest(f"field label not supported: {path}")
        only = 'only "metadata.name", "metadata.namespace"'
        raise BadRequest(f'"{path}" is not a known field selector: {only}')
    parts = path.split(".")
    return lambda stored: (_field(stored, parts, path in _BOOLEANS) == value) is wanted


def _field(stored: Stored, parts: list[str], boolean: bool) -> str:
    value: Any = stored.body
    for part in parts:
        value = value.get(part) if isinstance(value, Mapping) else None
    if boolean:
        return "true" if value else "false"
    return "" if value is None else str(value)
