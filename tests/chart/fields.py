"""Fields of an object as server-side apply counts them, and whether a manifest has them, too.

A path is a tuple of steps: the name of a field, or which item of a list is meant, as the API server writes it
(`k:{"name":"main"}`, `v:"x"`).
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.chart.helm import Object

Path = tuple[str, ...]


def written(live: Object) -> Iterator[tuple[str, Path]]:
    """Who manages what of an object that was read with its `managedFields`: manager and path."""
    for entry in live["metadata"]["managedFields"]:
        for path in _leaves(entry["fieldsV1"], ()):
            yield entry["manager"], path


def _leaves(fields: dict[str, Any], path: Path) -> Iterator[Path]:
    """What only says which item is meant is no field: the item itself, and its key."""
    keys = json.loads(path[-1][2:]) if path and path[-1].startswith("k:") else {}
    for step, below in fields.items():
        name = step.removeprefix("f:")
        if step == "." or name in keys:
            continue
        if below:
            yield from _leaves(below, (*path, name))
        else:
            yield (*path, name)


def has(manifest: Any, path: Path) -> bool:
    """Whether the manifest says anything about that field: itself, or in place of what it is a part of."""
    if not path:
        return True
    step, rest = path[0], path[1:]
    if isinstance(manifest, dict):
        return step in manifest and has(manifest[step], rest)
    if not isinstance(manifest, list):
        return True
    kind, _, value = step.partition(":")
    wanted = json.loads(value)
    if kind == "v":
        return wanted in manifest
    return any(wanted.items() <= each.items() and has(each, rest) for each in manifest)
