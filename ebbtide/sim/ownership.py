"""Who owns which field: `metadata.managedFields`.

A field is a path of segments as the real server writes them: `f:spec` for a field, `k:{"name":"app"}` for the item of
an associative list (whose own existence is the leaf `.` below it), `v:"x"` for a member of a set. Every write through
the server moves the leaves that it changes to its writer.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

Path = tuple[str, ...]
Body = Mapping[str, Any]
Leaves = dict[Path, Any]

ITEM: Final = "."
# Lists of k8s.io/api with `listType=map`, by field name, and their keys. Every list that is not named here is atomic.
LIST_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "volumeMounts": ("mountPath",),
    "webhooks": ("name",),
    "matchConditions": ("name",),
    "conditions": ("type",),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_CONTAINER_PORT: Final = ("containerPort", "protocol")
_SERVICE_PORT: Final = ("port", "protocol")
# Lists with `listType=set`.
SETS: Final = frozenset({"finalizers"})
# Maps and structures that are written as a whole.
ATOMIC: Final = frozenset(
    {"selector", "labelSelector", "podSelector", "namespaceSelector", "objectSelector", "nodeSelector"}
    | {"requiredDuringSchedulingIgnoredDuringExecution"}
)
# What belongs to nobody.
_UNOWNED: Final = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds"}
)


@dataclass(frozen=True, slots=True)
class Ownership:
    """The leaves that one manager holds by one kind of operation (`Apply` or `Update`) on one subresource."""

    manager: str
    operation: str
    api_version: str
    time: str
    paths: frozenset[Path]
    subresource: str = ""

    @property
    def holder(self) -> tuple[str, str, str, str]:
        """What makes two entries one; appliers are the same over all versions of the API."""
        version = "" if self.operation == "Apply" else self.api_version
        return self.manager, self.operation, version, self.subresource

    def without(self, paths: Iterable[Path]) -> "Ownership":
        left = self.paths.difference(paths)
        return self if len(left) == len(self.paths) else replace(self, paths=left)


def list_keys(name: str, items: Iterable[Any]) -> tuple[str, ...]:
    """The keys of an associative list of that name, empty for an atomic one."""
    if name == "ports":
        first: Body = next(iter(items), {})
        return _CONTAINER_PORT if "containerPort" in first else _SERVICE_PORT
    return LIST_KEYS.get(name, ())


def item_segment(item: Body, keys: tuple[str, ...]) -> str:
    """`k:{"name":"app"}`."""
    return f"k:{orjson.dumps({key: item.get(key) for key in keys}).decode()}"


def belongs(name: str, subresource: str) -> bool:
    """Whether a write of that subresource can own this top-level field: the others are reset by the server."""
    if subresource == "status":
        return name in {"metadata", "status"}
    return name != "status"


def owned_leaves(body: Body) -> Leaves:
    """Every leaf that somebody can own, with its value."""
    leaves: Leaves = {}
    for name, value in body.items():
        if name == "metadata":
            kept = {key: inner for key, inner in value.items() if key not in _UNOWNED}
            if kept:
                leaves.update(_leaves(("f:metadata",), "metadata", kept))
        elif name not in {"apiVersion", "kind"}:
            leaves.update(_leaves((f"f:{name}",), name, value))
    return leaves


def _leaves(path: Path, name: str, value: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and name not in ATOMIC:
        for key, inner in value.items():
            yield from _leaves((*path, f"f:{key}"), key, inner)
    elif isinstance(value, list) and value and name in SETS:
        for member in value:
            yield (*path, f"v:{orjson.dumps(member).decode()}"), member
    elif isinstance(value, list) and (keys := list_keys(name, value)):
        for item in value:
            segment = item_segment(item, keys)
            yield (*path, segment, ITEM), True
            for key, inner in item.items():
                yield from _leaves((*path, segment, f"f:{key}"), key, inner)
    else:
        yield path, value


def after_write(held: tuple[Ownership, ...], old: Body | None, new: Body, write: Ownership) -> tuple[Ownership, ...]:
    """Ownership once `new` has replaced `old` by a write that is not an apply (`write` has no paths yet).

    The writer takes what it adds or changes; nobody keeps what is gone.
    """
    before, after = _parts(old or {}, new, write.subresource)
    taken = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    if not taken and not gone:
        return held
    return taken_over(held, replace(write, paths=frozenset(taken)), gone)


def taken_over(held: tuple[Ownership, ...], write: Ownership, gone: Iterable[Path] = ()) -> tuple[Ownership, ...]:
    """Moves the leaves of `write` to its holder, away from all others, and drops what is gone."""
    lost, taken, found = write.paths.union(gone), write.paths, False
    result: list[Ownership] = []
    for ownership in held:
        if ownership.holder == write.holder:
            found = True
            result.append(replace(write, paths=taken | ownership.paths.difference(gone)))
        else:
            result.append(ownership.without(lost))
    if not found:
        result.append(write)
    return tuple(ownership for ownership in result if ownership.paths)


def _parts(old: Body, new: Body, subresource: str) -> tuple[Leaves, Leaves]:
    """The leaves of what differs between both: most writes touch one corner of an object."""
    names = [name for name in {**new, **old} if belongs(name, subresource) and old.get(name) != new.get(name)]
    before = {name: old[name] for name in names if name in old}
    after = {name: new[name] for name in names if name in new}
    return owned_leaves(before), owned_leaves(after)


# --- as it is shown --------------------------------------------------------------------------------------------


def managed_fields(owned: Iterable[Ownership]) -> list[dict[str, Any]]:
    """The list as it stands in `metadata.managedFields`."""
    return [_entry(ownership) for ownership in owned]


def dotted(path: Path) -> str:
    """`.spec.containers[name="app"].image`, as conflicts name a field."""
    text = ""
    for segment in path:
        if segment.startswith("f:"):
            text += f".{segment[2:]}"
        elif segment.startswith("k:"):
            keys = orjson.loads(segment[2:]).items()
            text += f"[{','.join(f'{key}={orjson.dumps(value).decode()}' for key, value in keys)}]"
        elif segment.startswith("v:"):
            text += f"[{segment[1:].replace(':', '=', 1)}]"
    return text


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
