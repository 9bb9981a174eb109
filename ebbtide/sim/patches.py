"""The patch formats that the server takes, applied to a copy of the live object."""

from collections.abc import Mapping
from typing import Any, Final

import jsonpatch
import jsonpointer
import orjson

from ebbtide.sim.refusals import BadRequest, Invalid, UnsupportedMediaType
from ebbtide.sim.stored import Object

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_ACCEPTED: Final = f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
# k8s.io/apiserver `maxJSONPatchOperations`.
_MAX_OPERATIONS: Final = 10_000


def decoded(text: bytes) -> Any:
    """JSON; raises BadRequest."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as wrong:
        raise BadRequest(f"error decoding: {wrong}") from None


def patched(live: Object, media_type: str, text: bytes) -> Object:
    """The object after a JSON or merge patch; raises Invalid, BadRequest, UnsupportedMediaType."""
    if media_type == JSON_PATCH:
        return _json_patched(live, decoded(text))
    if media_type == MERGE_PATCH:
        patch = decoded(text)
        if not isinstance(patch, dict):
            raise BadRequest("error decoding patch: a merge patch of an object is an object")
        return merge_patched(live, patch)
    if media_type == STRATEGIC_PATCH:
        raise UnsupportedMediaType(
            "the embedded server refuses strategic merge patches on purpose: they need the types of every list; "
            f"accepted media types include: {_ACCEPTED}"
        )
    raise UnsupportedMediaType("415: Unsupported Media Type")


def merge_patched(live: Object, patch: Mapping[str, Any]) -> Object:
    """RFC 7386."""
    result = dict(live)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            inner = result.get(name)
            result[name] = merge_patched(inner if isinstance(inner, dict) else {}, value)
        else:
            result[name] = value
    return result


def _json_patched(live: Object, operations: Any) -> Object:
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > _MAX_OPERATIONS:
        raise BadRequest(f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}")
    try:
        result: Any = live
        for operation in operations:
            result = _applied(result, operation)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
        raise Invalid("the server rejected our request due to an error in our request") from None
    if not isinstance(result, dict):
        raise BadRequest("invalid JSON patch: the result is not an object")
    return result


def _applied(body: Any, operation: Mapping[str, Any]) -> Any:
    """One operation, with the two liberties that the real server's library takes with a member that is not there.

    evanphx/json-patch v4: `replace` adds it, `test` finds null.
    """
    op, missing = operation.get("op"), _lacks_member(body, operation)
    if op == "test" and missing and operation.get("value") is None:
        return body
    if op == "replace" and missing:
        operation = {**operation, "op": "add"}
    return jsonpatch.JsonPatch([operation]).apply(body, in_place=True)


def _lacks_member(body: Any, operation: Mapping[str, Any]) -> bool:
    """Whether the parent of the path is an object without that member."""
    if operation.get("op") not in {"test", "replace"} or not isinstance(operation.get("path"), str):
        return False
    parent, member = jsonpointer.JsonPointer(operation["path"]).to_last(body)
    return isinstance(parent, dict) and member is not None and member not in parent
