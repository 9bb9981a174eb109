"""The API server: HTTP in front of the storage.

One handler for all paths, on aiohttp's low-level server, since the paths of Kubernetes are regular. Each request first
meets the faults that are ordered for it; a Refusal becomes a Status.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

import orjson
from aiohttp import web

from ebbtide.sim import budgets, discovery, faults, lists
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.faults import Answer, Compact, Delay, Drop, Effect, Faults
from ebbtide.sim.kinds import PODS
from ebbtide.sim.patches import APPLY_PATCH, decoded
from ebbtide.sim.refusals import BadRequest, MethodNotAllowed, NotAcceptable, PlainFault, Refusal, UnsupportedMediaType
from ebbtide.sim.routes import Target, target
from ebbtide.sim.storage import Storage, Write
from ebbtide.sim.stored import Stored
from ebbtide.sim.streaming import send
from ebbtide.sim.watches import Watch
from ebbtide.sim.writes import Writes

JSON: Final = "application/json"
# k8s.io/apiserver `--min-request-timeout`: a watch that does not say ends after one to two times this.
MIN_WATCH_SECONDS: Final = 1800.0
_ACTIONS: Final = frozenset({"eviction", "binding"})
_NOT_ALLOWED: Final = "the server does not allow this method on the requested resource"


class ApiServer:
    """Answers requests; give `handle` to `aiohttp.web.Server`."""

    def __init__(self, storage: Storage, injected: Faults, *, seed: int = 0) -> None:
        self.writes = Writes(storage)
        self._storage = storage
        self._faults = injected
        self._random = Random(seed)  # noqa: S311 - reproducible on purpose
        self.requests = 0
        self._handlers: Mapping[tuple[str, bool], Handler] = {
            ("GET", True): self._get,
            ("GET", False): self._list,
            ("POST", False): self._create,
            ("POST", True): self._act_on_pod,
            ("PUT", True): self._replace,
            ("PATCH", True): self._patch,
            ("DELETE", True): self._delete,
            ("DELETE", False): self._delete_collection,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request from the wire."""
        self.requests += 1
        watching = request.method == "GET" and lists.truthy(request.query.get("watch", ""))
        method = faults.WATCH if watching else request.method
        effects = self._faults.strike(method, request.path, request.headers.get("User-Agent", ""))
        if effects:
            early = await self._before(request, effects)
            if early is not None:
                return early
        try:
            response = await self._answer(request, watching=watching, effects=effects)
        except Refusal as refusal:
            response = refused(refusal)
        if effects:
            await self._after(request, effects)
        return response

    # --- faults ----------------------------------------------------------------------------------------------

    async def _before(self, request: web.BaseRequest, effects: list[Effect]) -> web.Response | None:
        for effect in effects:
            match effect:
                case Delay():
                    await self._faults.delay(effect.before, effect)
                case Compact():
                    self._storage.compact()
                case Answer():
                    return injected_answer(effect)
                case Drop(processed=False):
                    break_off(request)
                case _:
                    pass
        return None

    async def _after(self, request: web.BaseRequest, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Delay) and effect.after:
                await self._faults.delay(effect.after, effect)
            if isinstance(effect, Drop) and effect.processed:
                break_off(request)

    # --- dispatch --------------------------------------------------------------------------------------------

    async def _answer(self, request: web.BaseRequest, *, watching: bool, effects: list[Effect]) -> web.StreamResponse:
        _check_accept(request)
        meant = target(request.path)
        if meant is None:
            return await self._other(request)
        if watching:
            return await self._watch(request, meant, effects)
        handler = self._handlers.get((request.method, bool(meant.name)))
        if handler is None or (meant.subresource in _ACTIONS and request.method != "POST"):
            raise MethodNotAllowed(_NOT_ALLOWED)
        return await handler(request, meant)

    async def _other(self, request: web.BaseRequest) -> web.Response:
        path = request.path.rstrip("/")
        if path in discovery.HEALTH:
            return web.Response(text="ok")
        if path == discovery.ACCESS_REVIEWS and request.method == "POST":
            review = {**decoded(await request.read()), "status": {"allowed": True}}
            return as_json(orjson.dumps(review), 201)
        document = discovery.document(path)
        if document is None:
            raise Unserved
        return as_json(orjson.dumps(document))

    # --- verbs -----------------------------------------------------------------------------------------------

    async def _get(self, request: web.BaseRequest, meant: Target) -> web.Response:
        version = lists.parse_query(request.query).resource_version
        lists.require_reached(self._storage, int(version or 0))
        return as_json(self._storage.find(meant.kind, meant.name, meant.namespace).data)

    async def _list(self, request: web.BaseRequest, meant: Target) -> web.Response:
        return as_json(lists.list_objects(self._storage, meant, lists.parse_query(request.query)))

    async def _watch(self, request: web.BaseRequest, meant: Target, effects: list[Effect]) -> web.StreamResponse:
        query = lists.parse_query(request.query)
        if meant.name:
            raise MethodNotAllowed("watching one object is asked for with a fieldSelector")
        seconds = query.timeout_seconds or MIN_WATCH_SECONDS * (1 + self._random.random())
        with Watch(self._storage, meant, query) as watch:
            return await send(request, watch, seconds, self._faults, effects)

    async def _create(self, request: web.BaseRequest, meant: Target) -> web.Response:
        _check_content_type(request)
        if meant.kind.namespaced and not meant.namespace:
            raise MethodNotAllowed(_NOT_ALLOWED)
        stored = await self.writes.create(meant, await request.read(), _write(request, meant))
        return as_json(stored.data, 201)

    async def _replace(self, request: web.BaseRequest, meant: Target) -> web.Response:
        _check_content_type(request)
        stored, created = await self.writes.replace(meant, await request.read(), _write(request, meant))
        return as_json(stored.data, 201 if created else 200)

    async def _patch(self, request: web.BaseRequest, meant: Target) -> web.Response:
        text, write = await request.read(), _write(request, meant)
        if request.content_type != APPLY_PATCH:
            return as_json((await self.writes.patch(meant, request.content_type, text, write)).data)
        if "fieldManager" not in request.query:
            write = Write("", write.subresource, write.dry_run)
        force = lists.truthy(request.query.get("force", ""))
        stored, created = await self.writes.apply(meant, text, write, force=force)
        return as_json(stored.data, 201 if created else 200)

    async def _delete(self, request: web.BaseRequest, meant: Target) -> web.Response:
        options = await _deletion(request)
        stored = await self.writes.delete(meant, options)
        live = self._storage.peek(meant.kind, meant.name, meant.namespace)
        if meant.kind.returns_deleted or (live is not None and live.uid == stored.uid):
            return as_json(stored.data)
        return as_json(orjson.dumps(_deleted(stored)))

    async def _delete_collection(self, request: web.BaseRequest, meant: Target) -> web.Response:
        deleted = await self.writes.delete_collection(meant, request.query, await _deletion(request))
        items = [orjson.Fragment(stored.item) for stored in deleted]
        metadata = {"resourceVersion": str(self._storage.version)}
        head = {"kind": f"{meant.kind.kind}List", "apiVersion": meant.kind.api_version}
        return as_json(orjson.dumps({**head, "metadata": metadata, "items": items}))

    async def _act_on_pod(self, request: web.BaseRequest, meant: Target) -> web.Response:
        body = decoded(await request.read())
        if meant.kind is not PODS or meant.subresource not in _ACTIONS:
            raise MethodNotAllowed(_NOT_ALLOWED)
        if meant.subresource == "eviction":
            options = budgets.eviction_options(body, meant.name)
            options = replace(options, dry_run=options.dry_run or "dryRun" in request.query)
            budgets.evict(self._storage, meant.namespace, meant.name, options)
        else:
            self._bind(meant, body)
        return as_json(orjson.dumps({**_SUCCESS, "code": 201}), 201)

    def _bind(self, meant: Target, body: Mapping[str, Any]) -> None:
        metadata, node = body.get("metadata") or {}, (body.get("target") or {}).get("name")
        if metadata.get("name", meant.name) != meant.name:
            raise BadRequest("name in URL does not match name in Binding object")
        if not node:
            raise PlainFault("target.name: Required value")
        self._storage.bind(meant.namespace, meant.name, node, metadata.get("uid", ""))


Handler = Callable[[web.BaseRequest, Target], Awaitable[web.StreamResponse]]
_SUCCESS: Final[Mapping[str, Any]] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


class Unserved(Refusal):
    """404 for a path that names no resource."""

    code = 404
    reason = "NotFound"

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource")


def as_json(body: bytes, code: int = 200) -> web.Response:
    return web.Response(body=body, status=code, content_type=JSON)


def refused(refusal: Refusal) -> web.Response:
    response = as_json(orjson.dumps(refusal.status()), refusal.code)
    if refusal.retry_after:
        response.headers["Retry-After"] = str(refusal.retry_after)
    return response


def injected_answer(effect: Answer) -> web.Response:
    """What an ordered fault answers, a Status as a proxy or the server itself would send it."""
    body = {
        **_SUCCESS,
        "status": "Failure",
        "message": effect.message,
        "reason": effect.reason,
        "code": effect.code,
    }
    response = as_json(orjson.dumps({key: value for key, value in body.items() if value != ""}), effect.code)
    if effect.retry_after is not None:
        response.headers["Retry-After"] = str(effect.retry_after)
    return response


def break_off(request: web.BaseRequest) -> None:
    """Resets the connection of the request; raises ConnectionResetError, so that nothing is answered."""
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError("broken on order")


def _write(request: web.BaseRequest, meant: Target) -> Write:
    query = request.query
    manager = query.get("fieldManager") or request.headers.get("User-Agent", "unknown").split("/")[0]
    return Write(manager, meant.subresource, "dryRun" in query)


async def _deletion(request: web.BaseRequest) -> Deletion:
    text = await request.read()
    if text:
        options = budgets.delete_options(decoded(text))
    else:
        grace = request.query.get("gracePeriodSeconds")
        propagation = request.query.get("propagationPolicy", "")
        options = Deletion(grace_seconds=None if grace is None else int(grace), propagation=propagation)
    if "dryRun" in request.query:
        options = replace(options, dry_run=True)
    return options


def _deleted(stored: Stored) -> dict[str, Any]:
    details = {"name": stored.name, "kind": stored.kind.plural, "uid": stored.uid}
    if stored.kind.group:
        details["group"] = stored.kind.group
    return {**_SUCCESS, "details": details}


def _check_accept(request: web.BaseRequest) -> None:
    accepted = request.headers.get("Accept", "")
    if accepted and "json" not in accepted and "*/*" not in accepted and "application/*" not in accepted:
        raise NotAcceptable(f"only the following media types are accepted: {JSON}")


def _check_content_type(request: web.BaseRequest) -> None:
    if request.content_type not in {JSON, "application/octet-stream"}:
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {JSON}"
        )
