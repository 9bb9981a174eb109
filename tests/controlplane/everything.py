"""Every object of a cluster, of every kind that it serves: what was there before, and is it all gone again?"""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError

from tests.controlplane.servers import ControlPlane

# Written down as things happen, by whoever sees them, and dropped by the API server after an hour.
_RECORDS = frozenset({"events"})
Name = tuple[str, str, str]


async def everything(plane: ControlPlane) -> set[Name]:
    """Kind, namespace and name of every object but events; a kind is called `resource.group`."""
    return await asyncio.to_thread(lambda: set(_listed(plane)))


def _listed(plane: ControlPlane) -> Iterator[Name]:
    for prefix, group in _groups(plane):
        for resource in _served(plane, prefix, "resources"):
            name = resource["name"]
            if "/" in name or "list" not in resource["verbs"] or name in _RECORDS:
                continue
            for found in _served(plane, f"{prefix}/{name}", "items"):
                metadata = found["metadata"]
                yield f"{name}.{group}".rstrip("."), metadata.get("namespace", ""), metadata["name"]


def _served(plane: ControlPlane, path: str, what: str) -> list[dict[str, Any]]:
    """Nothing of a kind that is no longer served: it goes bit by bit when its definition does."""
    try:
        return list(plane.call("GET", path)[what])
    except HTTPError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        return []


def _groups(plane: ControlPlane) -> Iterator[tuple[str, str]]:
    yield "/api/v1", ""
    for group in plane.call("GET", "/apis")["groups"]:
        yield f"/apis/{group['preferredVersion']['groupVersion']}", group["name"]
