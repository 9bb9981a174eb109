"""LIST: pages of one consistent snapshot, and what a resourceVersion in the query means.

Follows https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ebbtide.sim.history import Compacted
from ebbtide.sim.kinds import Kind
from ebbtide.sim.refusals import BadRequest, Expired, Invalid, TooLate, field_problem
from ebbtide.sim.routes import Target
from ebbtide.sim.selectors import Test, selected
from ebbtide.sim.storage import Storage
from ebbtide.sim.stored import Stored

_LIST_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_CONTINUE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_MATCHES: Final = ("Exact", "NotOlderThan")
_OPTIONS: Final = Kind("meta.k8s.io", "v1", "listoptions", "ListOptions", namespaced=False)


@dataclass(frozen=True, slots=True)
class Query:
    """The query parameters of LIST and WATCH, as text."""

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    send_initial_events: bool | None = None
    allow_bookmarks: bool = False
    timeout_seconds: int = 0


def parse_query(query: Mapping[str, str]) -> Query:
    """Raises BadRequest for numbers that are none."""
    version = query.get("resourceVersion", "")
    if version and not version.isdigit():
        parsing = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise BadRequest(f'invalid resource version: resourceVersion: Invalid value: "{version}": {parsing}')
    initial = query.get("sendInitialEvents")
    return Query(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        resource_version=version,
        resource_version_match=query.get("resourceVersionMatch", ""),
        limit=_number(query.get("limit", "")),
        continue_token=query.get("continue", ""),
        send_initial_events=None if initial is None else truthy(initial),
        allow_bookmarks=truthy(query.get("allowWatchBookmarks", "")),
        timeout_seconds=_number(query.get("timeoutSeconds", "")),
    )


def truthy(text: str) -> bool:
    """As the server reads flags in a query."""
    return text.lower() in {"1", "t", "true"}


def refuse_options(field: str, detail: str) -> Invalid:
    """422 about a query parameter."""
    return Invalid.of(_OPTIONS, "", field_problem(field, f"Forbidden: {detail}", "FieldValueForbidden"))


def list_objects(storage: Storage, target: Target, query: Query) -> bytes:
    """The list as JSON. Raises Expired, BadRequest, Invalid, TooLate."""
    _check(query)
    version, after = _position(storage, target.kind, query)
    found = _snapshot(storage, target, version)
    test = selected(target.kind, query.label_selector, query.field_selector)
    start = next((index for index, stored in enumerate(found) if _cursor(stored) > after), len(found)) if after else 0
    limit = 0 if query.resource_version == "0" else query.limit
    page, end = _page(found, start, limit, test)
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if end < len(found):
        metadata["continue"] = _token(version, _cursor(page[-1]))
        if test is None:
            metadata["remainingItemCount"] = len(found) - end
    return _json(target.kind, metadata, page)


def require_reached(storage: Storage, version: int) -> None:
    """Raises TooLate for a version that this cluster has not come to."""
    if version > storage.version:
        raise TooLate(
            f"Timeout: Too large resource version: {version}, current: {storage.version}",
            causes=({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},),
            retry_after=1,
        )


def _number(text: str) -> int:
    try:
        return int(text or 0)
    except ValueError:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _check(query: Query) -> None:
    match = query.resource_version_match
    if match and not query.resource_version:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise refuse_options("resourceVersionMatch", text)
    if match and query.continue_token:
        raise refuse_options("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
    if match not in {"", *_MATCHES}:
        supported = ", ".join(f'"{known}"' for known in (*_MATCHES, ""))
        text = f'Unsupported value: "{match}": supported values: {supported}'
        raise Invalid.of(_OPTIONS, "", field_problem("resourceVersionMatch", text, "FieldValueNotSupported"))
    if match == "Exact" and query.resource_version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise refuse_options("resourceVersionMatch", text)
    if query.send_initial_events is not None:
        raise refuse_options("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if query.continue_token and query.resource_version not in {"", "0"}:
        raise BadRequest("specifying resource version is not allowed when using continue")


def _position(storage: Storage, kind: Kind, query: Query) -> tuple[int, str]:
    """Which version is read, and after which key."""
    if query.continue_token:
        version, after = _read_token(query.continue_token)
        if version < 0:
            return storage.version, after
        if version < storage.history.oldest(kind):
            token = _token(-1, after)
            raise _ContinueExpired(_CONTINUE_TOO_OLD, token)
        return version, after
    version = int(query.resource_version or 0)
    require_reached(storage, version)
    exact = query.resource_version_match == "Exact" or (query.limit > 0 and not query.resource_version_match)
    return (version if version and exact else storage.version), ""


def _snapshot(storage: Storage, target: Target, version: int) -> list[Stored]:
    namespace = target.namespace or None
    if version == storage.version:
        return list(storage.scan(target.kind, namespace))
    try:
        return storage.scan_at(target.kind, version, namespace)
    except Compacted:
        raise Expired(_LIST_TOO_OLD) from None


def _page(found: list[Stored], start: int, limit: int, test: Test | None) -> tuple[list[Stored], int]:
    page: list[Stored] = []
    for index in range(start, len(found)):
        if test is None or test(found[index]):
            page.append(found[index])
            if len(page) == limit:
                return page, index + 1
    return page, len(found)


class _ContinueExpired(Expired):
    """410 with a token that goes on, inconsistently, from the same place."""

    def __init__(self, message: str, token: str) -> None:
        super().__init__(message)
        self._token = token

    def status(self) -> dict[str, Any]:
        return {**super().status(), "metadata": {"continue": self._token}}


def _cursor(stored: Stored) -> str:
    return f"{stored.namespace}/{stored.name}"


def _token(version: int, after: str) -> str:
    text = orjson.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": f"{after}\0"})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _read_token(token: str) -> tuple[int, str]:
    try:
        padded = token + "=" * (-len(token) % 4)
        content = orjson.loads(base64.urlsafe_b64decode(padded))
        return int(content["rv"]), str(content["start"]).rstrip("\0")
    except (ValueError, KeyError, TypeError):
        raise BadRequest(f"continue key is not valid: {token}") from None


def _json(kind: Kind, metadata: dict[str, Any], page: list[Stored]) -> bytes:
    head = f'{{"kind":"{kind.kind}List","apiVersion":"{kind.api_version}","metadata":'.encode()
    items = b",".join([stored.item for stored in page])
    return head + orjson.dumps(metadata) + b',"items":[' + items + b"]}\n"
