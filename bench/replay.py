"""A control plane whose nodes are played back: as many and as busy as wanted, at next to no cost for the server.

Lists and watches of nodes are answered from one real node that is given many names; every other request goes to the
real API server behind. What a client spends on the stream is then its own affair alone.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final

import orjson
from aiohttp import web

from ebbtide.kube.resources import NODES
from ebbtide.model import format_time
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.servers import ControlPlane

_FIRST_VERSION: Final = 1_000_000
# Long enough to be unique in a node, and replaced in its bytes.
_NAME, _VERSION, _BEAT = b"@@NAME@@", b"@@VERSION@@", b"@@BEAT@@"
# Events are sent at this interval, as many as are due, each written by itself.
_TICK: Final = 0.01


class Replay(FaultProxy):
    """`count` copies of the node `raw`; `send` lets them send heartbeats. An async context manager."""

    def __init__(self, plane: ControlPlane, raw: dict[str, Any], count: int) -> None:
        pki = plane.pki
        super().__init__(plane.server, ca_file=pki.ca, certificate=pki.certificate, key=pki.key)
        self._template = _template(raw)
        self._names = [f"{raw['metadata']['name']}-{number}".encode() for number in range(count)]
        self._version = _FIRST_VERSION + count
        self._watchers: set[web.StreamResponse] = set()

    @property
    def weight(self) -> int:
        """Bytes of one node."""
        return len(self._node(0, _FIRST_VERSION))

    async def send(self, events: int, per_second: float) -> None:
        """That many heartbeats, of one node after the other, to everybody who watches."""
        loop = asyncio.get_running_loop()
        begun, sent = loop.time(), 0
        while sent < events:
            while sent < min(events, (loop.time() - begun) * per_second):
                self._version += 1
                line = _event(b"MODIFIED", self._node(sent % len(self._names), self._version))
                sent += 1
                for watcher in tuple(self._watchers):
                    await watcher.write(line)
            await asyncio.sleep(_TICK)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET" or request.path != NODES.path(""):
            return await super()._handle(request)
        if request.query.get("watch") in ("true", "1"):
            return await self._watch(request)
        metadata = {"resourceVersion": str(self._version)}
        start = orjson.dumps({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata})[:-1]
        body = start + b',"items":[' + b",".join(self._nodes()) + b"]}"
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            for node in self._nodes():
                await answer.write(_event(b"ADDED", node))
            await answer.write(_event(b"BOOKMARK", self._end_of_list()))
        self._watchers.add(answer)
        try:
            await asyncio.Event().wait()  # until the client goes, which cancels this
        finally:
            self._watchers.discard(answer)
        return answer

    def _nodes(self) -> Iterator[bytes]:
        return (self._node(number, _FIRST_VERSION + number) for number in range(len(self._names)))

    def _node(self, number: int, version: int) -> bytes:
        beat = format_time(time.time() // 1).encode()
        named = self._template.replace(_NAME, self._names[number])
        return named.replace(_VERSION, str(version).encode()).replace(_BEAT, beat)

    def _end_of_list(self) -> bytes:
        annotations = {"k8s.io/initial-events-end": "true"}
        metadata = {"resourceVersion": str(self._version), "annotations": annotations}
        return orjson.dumps({"kind": "Node", "apiVersion": "v1", "metadata": metadata})


def _template(raw: dict[str, Any]) -> bytes:
    """The node's bytes with marks where copies and heartbeats differ."""
    copy = orjson.loads(orjson.dumps(raw))
    name = copy["metadata"]["name"]
    copy["metadata"] |= {"uid": f"{_NAME.decode()}-uid", "resourceVersion": _VERSION.decode()}
    copy |= {"kind": "Node", "apiVersion": "v1"}
    for condition in copy["status"]["conditions"]:
        condition["lastHeartbeatTime"] = _BEAT.decode()
    return orjson.dumps(copy).replace(f'"{name}"'.encode(), b'"' + _NAME + b'"')


def _event(kind: bytes, node: bytes) -> bytes:
    return b'{"type":"' + kind + b'","object":' + node + b"}\n"
