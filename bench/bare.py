"""The least that a client can do: one session, a token, requests made up beforehand, answers read and thrown away.

It is what the product is measured against: no retries, no limits, no look at the answers.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from ebbtide.kube.resources import NODES, PODS
from tests.controlplane.servers import ControlPlane

Request = Callable[[], Coroutine[Any, Any, None]]

_TIMEOUT = aiohttp.ClientTimeout(total=60)


class Bare:
    """Requests to a control plane as admin, by way of `server` if that is given; an async context manager."""

    def __init__(self, plane: ControlPlane, server: str = "") -> None:
        self._server = server or plane.server
        self._token = plane.admin_token
        self._trust = ssl.create_default_context(cafile=plane.ca_file)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._trust, limit=0, keepalive_timeout=60),
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=_TIMEOUT,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._session.close()

    async def all(self, requests: Sequence[Request], width: int) -> float:
        """Sends them, `width` at a time, and returns the seconds from the first one's start to the last answer."""
        loop = asyncio.get_running_loop()
        waiting = iter(requests)

        async def work() -> None:
            for request in waiting:
                await request()

        begun = loop.time()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(width, len(requests))):
                group.create_task(work())
        return loop.time() - begun

    async def encoded(self, path: str, content_type: str) -> bytes:
        """What is at that path, in that encoding."""
        async with self._session.get(self._server + path, headers={"Accept": content_type}) as answer:
            answer.raise_for_status()
            return await answer.read()

    def post(self, path: str, body: Any) -> Request:
        return self._request("POST", path, body, "application/json")

    def patch(self, path: str, operations: Sequence[dict[str, Any]]) -> Request:
        """A JSON patch of what is at that path."""
        return self._request("PATCH", path, operations, "application/json-patch+json")

    def taint(self, node: str, key: str) -> Request:
        """Adds a taint behind those that the node has; it needs to have one."""
        operation = {"op": "add", "path": "/spec/taints/-", "value": {"key": key, "value": "1", "effect": "NoSchedule"}}
        return self._request("PATCH", NODES.path("", node), [operation], "application/json-patch+json")

    def heartbeat(self, node: str, time: str) -> Request:
        """What a kubelet sends when nothing has changed. `time` is RFC 3339."""
        body = {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": time}]}}
        path = NODES.path("", node, "status")
        return self._request("PATCH", path, body, "application/strategic-merge-patch+json")

    def evict(self, raw: dict[str, Any]) -> Request:
        """Evicts exactly this pod."""
        metadata = raw["metadata"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
        }
        return self.post(PODS.path(metadata["namespace"], metadata["name"], "eviction"), body)

    def _request(self, method: str, path: str, body: Any, content_type: str) -> Request:
        data, headers = orjson.dumps(body), {"Content-Type": content_type}

        async def send() -> None:
            async with self._session.request(method, self._server + path, data=data, headers=headers) as answer:
                text = await answer.read()
                if answer.status >= 300:
                    raise AssertionError(f"{method} {path}: {answer.status} {text[:300]!r}")

        return send
