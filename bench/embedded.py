"""An API server for figures that need no real one: the embedded cluster, with thousands of nodes at next to no cost.

Nodes are made into bytes beforehand, so that how soon a client knows all of them is the client's own affair.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from ebbtide.kube.resources import NODES
from ebbtide.sim.cluster import Cluster

Object = dict[str, Any]

_FIRST_VERSION = 1_000_000
# Watches are still open at the end.
_GOODBYE = 0.1


class Embedded:
    """Answers for the nodes itself, for everything else by the embedded cluster."""

    def __init__(self, cluster: Cluster, nodes: Sequence[Object]) -> None:
        self._cluster = cluster
        self._version = str(_FIRST_VERSION + len(nodes))
        self._nodes = [_encoded(node, _FIRST_VERSION + number) for number, node in enumerate(nodes)]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "GET" or request.path != NODES.path(""):
            return await self._cluster.api.handle(request)
        if request.query.get("watch") in ("true", "1"):
            return await self._watch(request)
        listed = self._head("NodeList")[:-1] + b',"items":[' + b",".join(self._nodes) + b"]}"
        return web.Response(body=listed, content_type="application/json")

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            for node in self._nodes:
                await answer.write(_event(b"ADDED", node))
            end = self._head("Node", annotations={"k8s.io/initial-events-end": "true"})
            await answer.write(_event(b"BOOKMARK", end))
        await asyncio.Event().wait()  # until the client goes, which cancels this: nothing ever happens here
        return answer

    def _head(self, kind: str, **metadata: object) -> bytes:
        return orjson.dumps(
            {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": self._version, **metadata}}
        )


@asynccontextmanager
async def embedded(nodes: Sequence[Object]) -> AsyncIterator[str]:
    """Serves a cluster with these nodes on loopback; gives its URL."""
    async with Cluster() as cluster:
        server = web.Server(Embedded(cluster, nodes).handle, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=_GOODBYE)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()


def _encoded(node: Object, version: int) -> bytes:
    known = {"uid": f"{node['metadata']['name']}-uid", "resourceVersion": str(version)}
    return orjson.dumps({**node, "metadata": {**node["metadata"], **known}})


def _event(kind: bytes, node: bytes) -> bytes:
    return b'{"type":"' + kind + b'","object":' + node + b"}\n"
