"""Server-side apply: merges what a manager wants into what is there, and keeps the books of who owns what.

Follows sigs.k8s.io/structured-merge-diff `merge/update.go` for the lists and maps that `ownership` knows: the applied
fields replace, fields that only this manager had applied before and leaves out now go, and a field that somebody else
holds with another value is a conflict unless forced.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from ebbtide.sim.ownership import (
    ATOMIC,
    ITEM,
    SETS,
    Body,
    Leaves,
    Ownership,
    Path,
    belongs,
    dotted,
    item_segment,
    list_keys,
    owned_leaves,
)
from ebbtide.sim.refusals import Conflict
from ebbtide.sim.shape import tidy

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Applied:
    """The object after an apply, and who owns what from then on."""

    body: Object
    ownership: tuple[Ownership, ...]


def apply(live: Object, held: tuple[Ownership, ...], wanted: Object, write: Ownership, *, force: bool) -> Applied:
    """Applies `wanted`, a partial object, as `write` (without paths yet); raises Conflict.

    `live` may be changed.
    """
    wanted = {name: value for name, value in tidy(wanted).items() if belongs(name, write.subresource)}
    leaves = owned_leaves(wanted)
    before = owned_leaves(live)
    _refuse_conflicts(_contested(held, before, leaves, write), force=force)
    previous = next((entry for entry in held if entry.holder == write.holder), None)
    merged = _merged(live, wanted)
    given_up = previous.paths - leaves.keys() if previous else frozenset()
    _give_up(merged, given_up, [entry for entry in held if entry.holder != write.holder])
    return Applied(merged, _ownership(held, before, leaves, write))


def _ownership(held: tuple[Ownership, ...], before: Leaves, leaves: Leaves, write: Ownership) -> tuple[Ownership, ...]:
    """The writer has exactly what it applied; others lose only what it changed (fields of equal value are shared).

    Entries keep their place and, while nothing changes, their time: the same apply again is no change.
    """
    paths = frozenset(leaves)
    changed = {path for path, value in leaves.items() if path not in before or before[path] != value}
    result = [
        (entry if entry.paths == paths else replace(write, paths=paths))
        if entry.holder == write.holder
        else entry.without(changed)
        for entry in held
    ]
    if all(entry.holder != write.holder for entry in held):
        result.append(replace(write, paths=paths))
    return tuple(entry for entry in result if entry.paths)


def _contested(
    held: tuple[Ownership, ...], before: Leaves, leaves: Leaves, write: Ownership
) -> list[tuple[Ownership, Path]]:
    changed = {path for path, value in leaves.items() if path in before and before[path] != value}
    return [
        (entry, path)
        for entry in held
        if entry.manager != write.manager or entry.operation != write.operation
        for path in sorted(entry.paths & changed)
    ]


def _refuse_conflicts(contested: list[tuple[Ownership, Path]], *, force: bool) -> None:
    if not contested or force:
        return
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_holder(entry)}", "field": dotted(path)}
        for entry, path in contested
    ]
    count = f"{len(causes)} conflict{'s' if len(causes) > 1 else ''}"
    message = f"Apply failed with {count}: {_listed(contested)}"
    raise Conflict(message, causes=causes)


def _listed(contested: list[tuple[Ownership, Path]]) -> str:
    by_holder: dict[str, list[str]] = {}
    for entry, path in contested:
        by_holder.setdefault(_holder(entry), []).append(dotted(path))
    if len(contested) == 1:
        ((holder, (field,)),) = by_holder.items()
        return f"conflict with {holder}: {field}"
    lists = {holder: "\n".join(f"- {field}" for field in fields) for holder, fields in by_holder.items()}
    return "\n".join(f"conflicts with {holder}:\n{listed}" for holder, listed in lists.items())


def _holder(entry: Ownership) -> str:
    text = f'"{entry.manager}"'
    if entry.subresource:
        text += f' with subresource "{entry.subresource}"'
    if entry.operation == "Update":
        text += f" using {entry.api_version}"
    return text


# --- merging ---------------------------------------------------------------------------------------------------


def _merged(live: Object, wanted: Body) -> Object:
    for name, value in wanted.items():
        live[name] = _merged_value(name, live.get(name), value)
    return live


def _merged_value(name: str, live: Any, wanted: Any) -> Any:
    if isinstance(wanted, dict) and isinstance(live, dict) and name not in ATOMIC:
        return _merged(live, wanted)
    if isinstance(wanted, list) and isinstance(live, list):
        if name in SETS:
            return [*live, *(member for member in wanted if member not in live)]
        if keys := list_keys(name, [*live, *wanted]):
            return _merged_items(live, wanted, keys)
    return wanted


def _merged_items(live: list[Object], wanted: list[Body], keys: tuple[str, ...]) -> list[Object]:
    """Items of both come in the order wanted; those that only the live list has keep their place among them.

    Follows visitListItems of structured-merge-diff `typed/merge.go`.
    """
    there = {item_segment(item, keys): item for item in live}
    asked = {item_segment(item, keys): item for item in wanted}
    waiting, coming, merged = list(there), list(asked), list[Object]()
    while waiting or coming:
        if waiting and waiting[0] not in asked:
            merged.append(there[waiting.pop(0)])
        elif waiting and (not coming or _comes_later(waiting[0], coming, there)):
            waiting.pop(0)
        else:
            segment = coming.pop(0)
            merged.append(_merged(there.get(segment, {}), asked[segment]))
            if waiting and waiting[0] == segment:
                waiting.pop(0)
    return merged


def _comes_later(segment: str, coming: list[str], there: Mapping[str, Object]) -> bool:
    """Whether another item of both lists is to come before this one, or this one has come already."""
    shared = next((other for other in coming if other in there), None)
    return shared != segment


def _give_up(body: Object, paths: Iterable[Path], others: list[Ownership]) -> None:
    """Takes out what nobody else holds; an item of a list goes as a whole, with what was filled in by the server."""
    held_by_others = {path for entry in others for path in entry.paths}
    for path in sorted(paths, key=lambda path: (path[-1] != ITEM, path)):
        if path[-1] == ITEM:
            item = path[:-1]
            if not any(other[: len(item)] == item for other in held_by_others):
                _remove(body, item)
        elif path not in held_by_others:
            _remove(body, path)


def _remove(body: Object, path: Path) -> None:
    """Takes one leaf or item out, and the maps and lists that are empty then; one that is not there is no matter."""
    holders: list[tuple[Any, str]] = []
    at: Any = body
    for segment in path[:-1]:
        holders.append((at, segment))
        at = _child(at, segment)
        if at is None:
            return
    _discard(at, path[-1])
    for holder, segment in reversed(holders):
        if at or segment.startswith("k:"):
            return
        _discard(holder, segment)
        at = holder


def _child(at: Any, segment: str) -> Any:
    if segment.startswith("f:"):
        return at.get(segment[2:]) if isinstance(at, Mapping) else None
    if segment.startswith("k:") and isinstance(at, list):
        keys = orjson.loads(segment[2:])
        return next((item for item in at if all(item.get(key) == value for key, value in keys.items())), None)
    return None


def _discard(at: Any, segment: str) -> None:
    if segment.startswith("f:") and isinstance(at, dict):
        at.pop(segment[2:], None)
    elif segment.startswith("v:") and isinstance(at, list):
        member = orjson.loads(segment[2:])
        at[:] = [present for present in at if present != member]
    elif segment.startswith("k:") and isinstance(at, list):
        item = _child(at, segment)
        at[:] = [present for present in at if present is not item]
