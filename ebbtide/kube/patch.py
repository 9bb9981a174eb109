"""JSON patch operations (RFC 6902) and the escaping of their paths (RFC 6901)."""

from collections.abc import Callable, Sequence
from typing import Any

from ebbtide.model import Taint

Operation = dict[str, Any]


def pointer(*segments: str | int) -> str:
    """A JSON pointer: `pointer("metadata", "annotations", "a/b")` is `/metadata/annotations/a~1b`."""
    return "".join("/" + str(segment).replace("~", "~0").replace("/", "~1") for segment in segments)


def test(path: str, value: Any) -> Operation:
    """The patch fails as a whole (422) unless `path` holds exactly `value`."""
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: Any) -> Operation:
    """Sets a member, or inserts before an index (`-` appends)."""
    return {"op": "add", "path": path, "value": value}


def replace(path: str, value: Any) -> Operation:
    """Like `add`, for a value that is there: an index must exist (else 422), a missing member of a map is accepted."""
    return {"op": "replace", "path": path, "value": value}


def remove(path: str) -> Operation:
    """Takes away what is at `path`, which must exist (else 422)."""
    return {"op": "remove", "path": path}


def only_at(version: int) -> Operation:
    """The patch is for that resourceVersion of the object only: 409 when the object has changed since."""
    return replace("/metadata/resourceVersion", str(version))


def remove_taints(taints: Sequence[Taint], ours: Callable[[Taint], bool]) -> list[Operation]:
    """Takes those of a node's `taints` away, by their positions: only beside `only_at` the version that has them.

    From the last one to the first, since each removal moves what stands behind it.
    """
    return [remove(pointer("spec", "taints", at)) for at in reversed(range(len(taints))) if ours(taints[at])]
