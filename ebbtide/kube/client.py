"""The verbs of the Kubernetes API on raw JSON objects."""

import copy
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, Self, Unpack

import orjson

from ebbtide.kube import calls, stream
from ebbtide.kube.access import Access
from ebbtide.kube.answers import Answer
from ebbtide.kube.calls import Kind, Listing, Selection, Target
from ebbtide.kube.errors import Gone, Unreachable
from ebbtide.kube.limits import Lane, RateLimits
from ebbtide.kube.resources import PODS, Resource
from ebbtide.kube.shaped import ReadList, list_reader
from ebbtide.kube.traffic import Traffic, Verb
from ebbtide.kube.transport import Call, Transport

Object = dict[str, Any]
Objects = list[Object]

# Bookmarks come about once a minute (apiserver/pkg/storage/cacher, bookmarkFrequency): two of them missing is silence.
SILENT_AFTER: Final = 150.0
_LIST_ATTEMPTS: Final = 3
_READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. `resource_version` is that of the whole list."""

    items: Objects
    resource_version: int


class Client:
    """One API server, as an async context manager.

    Every method raises subclasses of `KubeError` and nothing else. Reads in the NORMAL lane are repeated a few times
    when the server is away; writes never are. `sent` counts what was sent, as RBAC would be asked about it.
    `patience` bounds how long (seconds) a read goes without a word from the server: for whoever has somebody waiting.
    """

    def __init__(
        self,
        access: Access,
        *,
        field_manager: str,
        user_agent: str,
        limits: RateLimits | None = None,
        patience: float = inf,
    ) -> None:
        self.access = access
        self._field_manager = field_manager
        self._transport = Transport(access, user_agent, limits or RateLimits(), patience)
        self._permit: Callable[[], bool] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all connections, also those of views made by `permitted`."""
        await self._transport.close()

    @property
    def sent(self) -> Counter[Verb]:
        return self._transport.traffic.sent

    @property
    def traffic(self) -> Traffic:
        """What was sent and answered, counted over all views."""
        return self._transport.traffic

    def permitted(self, permit: Callable[[], bool]) -> "Client":
        """The same client, whose writes raise NotLeading instead of being sent while `permit()` is false.

        Views can be nested: every permit must hold.
        """
        outer = self._permit
        view = copy.copy(self)
        view._permit = permit if outer is None else lambda: outer() and permit()
        return view

    # --- reading -------------------------------------------------------------------------------------------------

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        subresource: str = "",
        stale_ok: bool = False,
        lane: Lane = Lane.NORMAL,
    ) -> Object:
        """One object; with `stale_ok` from the server's cache, which may be a little behind."""
        target = Target(resource, namespace, name, subresource)
        return await self._object(calls.get(target, lane, stale_ok=stale_ok))

    async def pages(
        self, resource: Resource, *, shape: object = None, **how: Unpack[Listing]
    ) -> AsyncGenerator[Page, None]:
        """A list in pages. Raises Gone when it is compacted away under way: begin again.

        Of objects only what `shape` names is read (see `ebbtide.shapes`), without one all.
        """
        following, read = "", list_reader(shape)
        while True:
            call = calls.page(resource, how, following)
            page = await self._object(call, read)
            metadata = page.get("metadata") or {}
            yield Page(page.pop("items", None) or [], _version(call, metadata))
            following = metadata.get("continue") or ""
            if not following:
                return

    async def list(self, resource: Resource, **how: Unpack[Listing]) -> AsyncGenerator[Object, None]:
        """The objects of a list one by one, each let go before the next; see `pages`."""
        async with aclosing(self.pages(resource, **how)) as pages:
            async for page in pages:
                items = page.items
                items.reverse()
                while items:
                    yield items.pop()

    async def list_all(self, resource: Resource, **how: Unpack[Listing]) -> tuple[Objects, int]:
        """A whole list, and the resourceVersion from which a watch goes on.

        When it is compacted away between two pages all of it is read again, a few times.
        """
        for remaining in reversed(range(_LIST_ATTEMPTS)):
            objects: Objects = []
            version = 0
            try:
                async with aclosing(self.pages(resource, **how)) as pages:
                    async for page in pages:
                        objects += page.items
                        version = page.resource_version
            except Gone:
                if not remaining:
                    raise
            else:
                return objects, version
        raise AssertionError("the last attempt returns or raises")

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: int | None = None,
        initial_events: bool = False,
        timeout: float | None = None,
        silent_after: float = SILENT_AFTER,
        opened: Callable[[], None] | None = None,
        shape: object = None,
        **which: Unpack[Selection],
    ) -> AsyncGenerator[stream.WatchEvent, None]:
        """Events after `resource_version`, until the server ends the stream (after `timeout` seconds, 5 to 10 minutes).

        With `initial_events` there is first an ADDED event for every object, then a bookmark that says that these were
        all; servers that cannot do so answer Invalid. Raises Gone when the version is too old, Unreachable when the
        stream breaks, Silent when nothing comes for `silent_after` seconds. `opened` is called when the server has
        begun to answer, which in a quiet cluster is long before the first event. Of objects only what `shape` names is
        read (see `ebbtide.shapes`), without one all. Use it within `contextlib.aclosing`.
        """
        call = calls.watch(
            resource, which, resource_version=resource_version, initial_events=initial_events, timeout=timeout
        )
        return stream.events(call.what, self._transport.chunks(call, silent_after, opened), shape)

    # --- writing -------------------------------------------------------------------------------------------------

    async def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "", lane: Lane = Lane.NORMAL
    ) -> Object:
        """Raises AlreadyExists."""
        return await self._write(calls.CREATE, Target(resource, namespace), body, lane)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        lane: Lane = Lane.NORMAL,
    ) -> Object:
        """Raises Conflict when `body` carries a resourceVersion that is no longer the live one."""
        target = Target(resource, namespace, name, subresource)
        return await self._write(calls.UPDATE, target, body, lane)

    async def patch_json(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        namespace: str = "",
        subresource: str = "",
        lane: Lane = Lane.NORMAL,
    ) -> Object:
        """JSON patch; see `ebbtide.kube.patch`. Raises Invalid when a `test` fails or a path is missing."""
        target = Target(resource, namespace, name, subresource)
        return await self._write(calls.PATCH_JSON, target, operations, lane)

    async def patch_merge(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        lane: Lane = Lane.NORMAL,
    ) -> Object:
        """JSON merge patch: null removes, lists are replaced as a whole."""
        target = Target(resource, namespace, name, subresource)
        return await self._write(calls.PATCH_MERGE, target, body, lane)

    async def apply(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        field_manager: str | None = None,
        force: bool = False,
    ) -> Object:
        """Server-side apply: creates, or sets the fields of `body`. Raises Conflict for fields owned by others.

        `force` takes those fields over. The same apply again changes nothing, not even the resourceVersion.
        """
        params = {"force": str(force).lower()}
        if field_manager:
            params["fieldManager"] = field_manager
        return await self._write(calls.APPLY, Target(resource, namespace, name), body, params=params)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: int = 0,
        propagation: str = "Background",
    ) -> None:
        """Raises PreconditionFailed when the live object has another UID or resourceVersion, NotFound without one."""
        options = calls.delete_options(uid, resource_version, propagation)
        await self._write(calls.DELETE, Target(resource, namespace, name), options)

    async def evict(self, name: str, *, namespace: str, uid: str) -> None:
        """Asks for the eviction of exactly that pod, with the grace period that it says itself.

        Raises BudgetRefused, Misconfigured (more than one budget), PreconditionFailed (another pod of that name),
        NotFound, NamespaceTerminating. The server takes 100 ms at least, and seconds for pods under one budget.
        """
        target = Target(PODS, namespace, name, "eviction")
        await self._write(calls.CREATE, target, calls.eviction(name, namespace, uid))

    # --- below the verbs -----------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Any request, and whatever the server answers: a failing status is returned, not raised."""
        call = Call(
            method,
            path,
            params=params or {},
            body=None if body is None else orjson.dumps(body),
            content_type=content_type,
            permit=None if method in _READING_METHODS else self._permit,
        )
        answer, _ = await self._transport.exchange(call)
        return answer

    async def _write(
        self,
        kind: Kind,
        target: Target,
        body: Any,
        lane: Lane = Lane.NORMAL,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        call = calls.write(kind, target, body, {"fieldManager": self._field_manager, **(params or {})})
        return await self._object(replace(call, lane=lane, permit=self._permit))

    async def _object(self, call: Call, read: ReadList = orjson.loads) -> Object:
        answer = await self._transport.ask(call)
        try:
            parsed = read(answer.body)
        except ValueError as error:
            raise Unreachable(call.what, f"not JSON: {answer.body[:100]!r}") from error
        if not isinstance(parsed, dict):
            raise Unreachable(call.what, f"no object: {answer.body[:100]!r}")
        return parsed


def _version(call: Call, metadata: Mapping[str, Any]) -> int:
    try:
        return int(metadata["resourceVersion"])
    except (KeyError, ValueError) as error:
        raise Unreachable(call.what, "a list without a resourceVersion") from error
