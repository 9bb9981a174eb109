"""JSON patch operations (RFC 6902) and the escaping of their paths (RFC 6901)."""

from typing import Any

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
    """Like `add`, for a `path` that must exist (else 422)."""
    return {"op": "replace", "path": path, "value": value}


def remove(path: str) -> Operation:
    """Takes away what is at `path`, which must exist (else 422)."""
    return {"op": "remove", "path": path}
