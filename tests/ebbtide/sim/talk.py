"""Speaks plain HTTP to an embedded cluster, so that these tests share nothing with the product's client."""

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, ParamSpec

import aiohttp
import orjson

from ebbtide.sim.cluster import Cluster
from ebbtide.sim.time import simulate

P = ParamSpec("P")
Object = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/namespaces/default/pods"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
STATEFUL_SETS: Final = "/apis/apps/v1/namespaces/default/statefulsets"
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def simulated(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Runs an asynchronous test on simulated time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            await test(*args, **kwargs)

        simulate(main())

    return run


@dataclass(frozen=True)
class Answer:
    code: int
    headers: Mapping[str, str]
    text: bytes

    @property
    def body(self) -> Object:
        decoded: Object = orjson.loads(self.text)
        return decoded

    @property
    def version(self) -> int:
        return int(self.body["metadata"]["resourceVersion"])

    def refusal(self) -> tuple[int, str]:
        """Code and reason of a Status."""
        assert self.body["kind"] == "Status"
        assert self.body["code"] == self.code
        return self.code, self.body.get("reason", "")


class Talk:
    """Requests by method and path; raises aiohttp's errors when a connection breaks."""

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession, server: str) -> None:
        self.cluster = cluster
        self.session = session
        self.server = server

    async def ask(self, method: str, path: str, body: Any = None, media_type: str = "application/json") -> Answer:
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": media_type} if data is not None else {}
        async with self.session.request(method, self.server + path, data=data, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def post(self, path: str, body: Any) -> Answer:
        return await self.ask("POST", path, body)

    async def put(self, path: str, body: Any) -> Answer:
        return await self.ask("PUT", path, body)

    async def delete(self, path: str, body: Any = None) -> Answer:
        return await self.ask("DELETE", path, body)

    async def patch(self, path: str, *operations: Object) -> Answer:
        return await self.ask("PATCH", path, list(operations), JSON_PATCH)

    async def merge(self, path: str, patch: Object) -> Answer:
        return await self.ask("PATCH", path, patch, MERGE_PATCH)

    async def apply(self, path: str, body: Object, manager: str = "one", *, force: bool = False) -> Answer:
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        return await self.ask("PATCH", path + query, body, APPLY_PATCH)

    async def watch(self, path: str, **query: Any) -> AsyncGenerator[Object, None]:
        """The events of a watch, until it ends."""
        parameters = {"watch": "true", **{key: str(value) for key, value in query.items()}}
        async with self.session.get(self.server + path, params=parameters) as response:
            assert response.status == 200, await response.text()
            async for line in response.content:
                yield orjson.loads(line)

    async def events(self, path: str, **query: Any) -> list[tuple[str, str]]:
        """Type and name of every event of a watch (of a bookmark its version, of an error its reason)."""
        return [_short(event) async for event in self.watch(path, **query)]


def _short(event: Object) -> tuple[str, str]:
    kind, shown = event["type"], event["object"]
    if kind == "ERROR":
        return kind, shown["reason"]
    return kind, shown["metadata"]["resourceVersion" if kind == "BOOKMARK" else "name"]


@asynccontextmanager
async def talking(cluster: Cluster, server: str = "") -> AsyncIterator[Talk]:
    """Through memory, or to a server on a socket."""
    access = cluster.access()
    connector = aiohttp.TCPConnector() if server else access.connector()
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Talk(cluster, session, server or access.server)


@asynccontextmanager
async def embedded(**options: Any) -> AsyncIterator[Talk]:
    """A new cluster, and somebody who talks to it."""
    async with Cluster(**options) as cluster, talking(cluster) as talk:
        yield talk


def config_map(name: str, **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}
