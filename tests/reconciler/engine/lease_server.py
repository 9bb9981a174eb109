"""An API server that holds Leases and nothing else, and can treat each of its clients badly.

It speaks HTTP over a wire in memory, so the electors' own client, timeouts and connections are the real ones and time
can be simulated. Clients are told apart by their user agent.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any, Literal

from aiohttp import web

from ebbtide.kube.access import Access
from ebbtide.kube.client import Client
from ebbtide.sim.wire import Wire

# hang: never answered, never done. lose: done, and never answered. slow: done, and answered after four seconds.
# late: done after half a minute, when nobody listens any more. A number: refused with that status
# (429: for five seconds).
Fault = Literal["hang", "lose", "slow", "late"] | int
PATH = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
REASONS = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}


def now() -> float:
    return asyncio.get_running_loop().time()


class LeaseServer:
    """`leases` by name. `faults` by client, for writes also by `client:write`. `granted` is called for every write."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.namespaces = {"ebbtide-system"}
        self.faults: dict[str, Fault] = {}
        self.granted: Callable[[str, Mapping[str, Any]], None] = lambda _client, _lease: None
        self.overlaps: list[str] = []
        self.requests: list[tuple[float, str, str]] = []
        self._version = 100
        self._access: Access | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["LeaseServer"]:
        app = web.Application()
        app.router.add_get(PATH + "/{name}", self._handler(self._get))
        app.router.add_put(PATH + "/{name}", self._handler(self._put))
        app.router.add_post(PATH, self._handler(self._post))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        server = runner.server
        assert server is not None
        wire = Wire(server)
        self._access = Access(
            server="http://memory", connector=wire.connector, headers=self._no_headers, namespace="", identity="test"
        )
        try:
            yield self
        finally:
            wire.reset()
            await runner.cleanup()

    def client(self, name: str) -> Client:
        assert self._access is not None
        return Client(self._access, field_manager="test", user_agent=name)

    @property
    def lease(self) -> dict[str, Any]:
        return self.leases["ebbtide-reconciler"]

    def edit(self, **spec: object) -> None:
        """What somebody does with kubectl."""
        lease = deepcopy(self.lease)
        lease["spec"].update(spec)
        self._store("kubectl", "ebbtide-reconciler", lease)

    @staticmethod
    async def _no_headers() -> Mapping[str, str]:
        return {}

    def _handler(self, answer: Callable[[web.Request, dict[str, Any]], web.Response]) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.Response:
            client = request.headers["User-Agent"]
            self.requests.append((now(), client, request.method))
            body = await request.json() if request.can_read_body else {}
            fault = self.faults.get(client)
            if fault is None and request.method != "GET":
                fault = self.faults.get(f"{client}:write")
            match fault:
                case "hang":
                    await asyncio.sleep(3600)
                case "lose":
                    answer(request, body)
                    await asyncio.sleep(3600)
                case "slow":
                    done = answer(request, body)
                    await asyncio.sleep(4)
                    return done
                case "late":
                    return await asyncio.shield(asyncio.ensure_future(self._later(answer, request, body)))
                case int():
                    return _status(fault, "by order of the test")
            return answer(request, body)

        return handle

    @staticmethod
    async def _later(
        answer: Callable[[web.Request, dict[str, Any]], web.Response], request: web.Request, body: dict[str, Any]
    ) -> web.Response:
        await asyncio.sleep(30)
        return answer(request, body)

    def _get(self, request: web.Request, _body: dict[str, Any]) -> web.Response:
        lease = self.leases.get(request.match_info["name"])
        return web.json_response(lease) if lease else _status(404, "leases not found")

    def _post(self, request: web.Request, body: dict[str, Any]) -> web.Response:
        namespace, name = request.match_info["namespace"], body["metadata"]["name"]
        if namespace not in self.namespaces:
            return _status(404, f'namespaces "{namespace}" not found')
        if name in self.leases:
            return _status(409, "already exists", "AlreadyExists")
        body["metadata"]["uid"] = f"uid-{self._version}"
        return web.json_response(self._store(request.headers["User-Agent"], name, body), status=201)

    def _put(self, request: web.Request, body: dict[str, Any]) -> web.Response:
        known = self.leases.get(request.match_info["name"])
        if known is None:
            # The real one creates on PUT as well, but not with the UID of an object that is gone.
            return _status(409, "precondition failed: UID")
        if body["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
            return _status(409, "the object has been modified")
        return web.json_response(self._store(request.headers["User-Agent"], request.match_info["name"], body))

    def _store(self, client: str, name: str, lease: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        lease["metadata"]["resourceVersion"] = str(self._version)
        self.leases[name] = lease
        self.granted(client, lease)
        return lease


def _status(code: int, message: str, reason: str = "") -> web.Response:
    headers = {"Retry-After": "5"} if code == 429 else {}
    body = {"kind": "Status", "code": code, "reason": reason or REASONS.get(code, ""), "message": message}
    return web.json_response(body, status=code, headers=headers)
