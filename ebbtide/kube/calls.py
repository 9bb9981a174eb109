"""What is sent for each verb of the Kubernetes API. Pure."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypedDict

import orjson

from ebbtide.kube.backoff import jittered
from ebbtide.kube.limits import Lane
from ebbtide.kube.resources import Resource
from ebbtide.kube.traffic import Verb
from ebbtide.kube.transport import Call

# As client-go: watches end after 5 to 10 minutes, so that they spread anew over the servers, and not all together.
_LONGEST_WATCH: Final = 600.0
_COMPRESSED: Final = {"Accept-Encoding": "gzip"}
# Compression holds events back until a block is full.
_UNCOMPRESSED: Final = {"Accept-Encoding": "identity"}


class Kind(NamedTuple):
    """A kind of write: as HTTP sends it, and what RBAC calls it."""

    method: str
    verb: str
    content_type: str = "application/json"


CREATE: Final = Kind("POST", "create")
UPDATE: Final = Kind("PUT", "update")
DELETE: Final = Kind("DELETE", "delete")
PATCH_JSON: Final = Kind("PATCH", "patch", "application/json-patch+json")
PATCH_MERGE: Final = Kind("PATCH", "patch", "application/merge-patch+json")
APPLY: Final = Kind("PATCH", "patch", "application/apply-patch+yaml")


class Target(NamedTuple):
    """What a request is about; for a list and for a write that creates, `name` is empty."""

    resource: Resource
    namespace: str
    name: str = ""
    subresource: str = ""

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace, self.name, self.subresource)

    def verb(self, verb: str) -> Verb:
        """As RBAC would be asked about it."""
        return Verb(verb, self.resource.group, self.resource.plural, self.subresource)


class Selection(TypedDict, total=False):
    """Which objects of a kind: of one namespace (all without), with matching labels and fields."""

    namespace: str
    label_selector: str
    field_selector: str


class Listing(Selection, total=False):
    """How to list: `page_size` objects at a time (100); with `stale_ok` from the server's cache (`resourceVersion=0`).

    The cache may be a little behind and is a hundred times faster for a quiet kind; it may ignore the page size.
    """

    stale_ok: bool
    page_size: int


def get(target: Target, lane: Lane, *, stale_ok: bool) -> Call:
    """One object."""
    params = {"resourceVersion": "0"} if stale_ok else {}
    return Call("GET", target.path, params=params, headers=_COMPRESSED, verb=target.verb("get"), lane=lane)


def page(resource: Resource, how: Listing, following: str) -> Call:
    """A page of a list: the first one, or that of the `continue` token of the one before."""
    target = Target(resource, how.get("namespace", ""))
    params = _selected(how) | {"limit": str(how.get("page_size", 100))}
    if following:
        params["continue"] = following
    elif how.get("stale_ok"):
        params["resourceVersion"] = "0"
    return Call("GET", target.path, params=params, headers=_COMPRESSED, verb=target.verb("list"))


def watch(
    resource: Resource,
    which: Selection,
    *,
    resource_version: int | None,
    initial_events: bool,
    timeout: float | None,
) -> Call:
    """A stream of events, which the server ends after `timeout` seconds (5 to 10 minutes)."""
    target = Target(resource, which.get("namespace", ""))
    params = _selected(which) | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(max(1, int(timeout or jittered(_LONGEST_WATCH)))),
    }
    if resource_version is not None:
        params["resourceVersion"] = str(resource_version)
    if initial_events:
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    return Call("GET", target.path, params=params, headers=_UNCOMPRESSED, verb=target.verb("watch"))


def write(kind: Kind, target: Target, body: Any, params: Mapping[str, str]) -> Call:
    """One write, in the NORMAL lane and for everybody."""
    return Call(
        kind.method,
        target.path,
        params=params,
        body=orjson.dumps(body),
        content_type=kind.content_type,
        verb=target.verb(kind.verb),
    )


def delete_options(uid: str, resource_version: int, propagation: str) -> dict[str, Any]:
    """The body of a deletion; "" and 0 are no preconditions."""
    preconditions = {
        **({"uid": uid} if uid else {}),
        **({"resourceVersion": str(resource_version)} if resource_version else {}),
    }
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    return {**options, "preconditions": preconditions} if preconditions else options


def eviction(name: str, namespace: str, uid: str) -> dict[str, Any]:
    """The body of an eviction of exactly that pod."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }


def _selected(which: Selection) -> dict[str, str]:
    selectors = {"labelSelector": which.get("label_selector"), "fieldSelector": which.get("field_selector")}
    return {name: value for name, value in selectors.items() if value}
