"""Who owns which field: `metadata.managedFields`.

A field is a path of segments as the real server writes them: `f:spec` for a field, `k:{"name":"app"}` for the item of
an associative list. Every write through the server moves the changed leaves to its writer; server-side apply refuses
to take leaves that somebody else holds with another value.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]
Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ownership:
    """The leaves that one manager holds by one kind of operation (`Apply` or `Update`) on one subresource."""

    manager: str
    operation: str
    api_version: str
    time: str
    paths: frozenset[Path]
    subresource: str = ""


def managed_fields(owned: Iterable[Ownership]) -> list[dict[str, Any]]:
    """The list as it stands in `metadata.managedFields`."""
    return [_entry(ownership) for ownership in owned]


def _entry(ownership: Ownership) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "manager": ownership.manager,
        "operation": ownership.operation,
        "apiVersion": ownership.api_version,
        "time": ownership.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": _tree(ownership.paths),
    }
    if ownership.subresource:
        entry["subresource"] = ownership.subresource
    return entry


def _tree(paths: Iterable[Path]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in sorted(paths):
        branch = root
        for segment in path:
            branch = branch.setdefault(segment, {})
    return root


def after_write(before: tuple[Ownership, ...], old: Body | None, new: Body, write: Ownership) -> tuple[Ownership, ...]:
    """Ownership once `new` has replaced `old` by a write that is not an apply (`write` has no paths yet)."""
    return before
