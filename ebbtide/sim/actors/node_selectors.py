"""Node selectors: the terms by which node affinity and volumes name nodes.

They know two operators more than label selectors, and fields.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Raw = Mapping[str, Any]


def admits(node_selector: Raw, node: Raw) -> bool:
    """Whether a NodeSelector (terms are alternatives, the parts of a term all hold) admits the node."""
    return any(term_admits(term, node) for term in node_selector.get("nodeSelectorTerms") or ())


def term_admits(term: Raw, node: Raw) -> bool:
    """One NodeSelectorTerm; a term without expressions and fields admits no node."""
    expressions: Sequence[Raw] = term.get("matchExpressions") or ()
    fields: Sequence[Raw] = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    return all(_holds(each, labels) for each in expressions) and all(
        _holds(each, {"metadata.name": metadata["name"]}) for each in fields
    )


def _holds(requirement: Raw, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement["key"])
    listed: Sequence[str] = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in listed
        case "NotIn":
            return value not in listed
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _compared(value, listed) > 0
        case "Lt":
            return _compared(value, listed) < 0
        case unknown:
            raise ValueError(f"not a selector operator: {unknown}")


def _compared(value: str | None, listed: Sequence[str]) -> int:
    """1, -1 or 0 as the label is greater, smaller, or equal or not a whole number (then neither Gt nor Lt holds)."""
    try:
        left, right = int(value or ""), int(listed[0])
    except (ValueError, IndexError):
        return 0
    return (left > right) - (left < right)
