"""A control plane whose nodes are played back: as many and as busy as wanted, at next to no cost for the server.

Lists and watches of nodes are answered from one real node that is given many names; every other request goes to the
real API server behind. What a client spends on the stream is then its own affair alone.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final, Protocol

import orjson
from aiohttp import web

from bench import protobuf
from ebbtide.kube.resources import NODES
from ebbtide.model import format_time
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.servers import ControlPlane

_FIRST_VERSION: Final = 1_000_000
# Long enough to be unique in a node, and replaced in its bytes.
_NAME, _VERSION, _BEAT = b"@@NAME@@", b"@@VERSION@@", b"@@BEAT@@"
# Events are sent at this interval, as many as are due, each written by itself.
_TICK: Final = 0.01


class Voice(Protocol):
    """An encoding that nodes are told in."""

    content_type: str

    def node(self, name: bytes, version: int) -> bytes: ...

    def end_of_list(self, version: int) -> bytes: ...

    def event(self, kind: bytes, node: bytes) -> bytes: ...


class Json:
    """A `Voice`; `raw` is the node that the others are copies of."""

    content_type = "application/json"

    def __init__(self, raw: dict[str, Any]) -> None:
        self._template = _template(raw)

    def node(self, name: bytes, version: int) -> bytes:
        beat = format_time(time.time() // 1).encode()
        named = self._template.replace(_NAME, name)
        return named.replace(_VERSION, str(version).encode()).replace(_BEAT, beat)

    def end_of_list(self, version: int) -> bytes:
        annotations = {"k8s.io/initial-events-end": "true"}
        metadata = {"resourceVersion": str(version), "annotations": annotations}
        return orjson.dumps({"kind": "Node", "apiVersion": "v1", "metadata": metadata})

    def event(self, kind: bytes, node: bytes) -> bytes:
        return b'{"type":"' + kind + b'","object":' + node + b"}\n"


class Protobuf:
    """A `Voice`; `encoded` is the node that the others are copies of. Its heartbeats stay at the time that it says."""

    content_type = protobuf.CONTENT_TYPE

    def __init__(self, encoded: bytes) -> None:
        template = protobuf.EncodedNode(encoded)
        self.node, self.end_of_list, self.event = template.copy, template.end_of_list, protobuf.event


class Replay(FaultProxy):
    """`count` copies of the node `raw`; `send` lets them send heartbeats. An async context manager.

    Watches of who prefers protobuf are answered in it if `encoded` is the same node in protobuf.
    """

    def __init__(self, plane: ControlPlane, raw: dict[str, Any], count: int, encoded: bytes = b"") -> None:
        pki = plane.pki
        super().__init__(plane.server, ca_file=pki.ca, certificate=pki.certificate, key=pki.key)
        self._json = Json(raw)
        self._protobuf = Protobuf(encoded) if encoded else None
        self._names = [f"{raw['metadata']['name']}-{number}".encode() for number in range(count)]
        self._version = _FIRST_VERSION + count
        self._watchers: dict[web.StreamResponse, Voice] = {}

    @property
    def weight(self) -> int:
        """Bytes of one node in JSON."""
        return len(self._json.node(self._names[0], _FIRST_VERSION))

    async def send(self, events: int, per_second: float) -> None:
        """That many heartbeats, of one node after the other, to everybody who watches."""
        loop = asyncio.get_running_loop()
        begun, sent = loop.time(), 0
        while sent < events:
            while sent < min(events, (loop.time() - begun) * per_second):
                self._version += 1
                name = self._names[sent % len(self._names)]
                sent += 1
                for watcher, voice in tuple(self._watchers.items()):
                    await watcher.write(voice.event(b"MODIFIED", voice.node(name, self._version)))
            await asyncio.sleep(_TICK)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET" or request.path != NODES.path(""):
            return await super()._handle(request)
        if request.query.get("watch") in ("true", "1"):
            return await self._watch(request, self._voice(request))
        metadata = {"resourceVersion": str(self._version)}
        start = orjson.dumps({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata})[:-1]
        body = start + b',"items":[' + b",".join(self._nodes(self._json)) + b"]}"
        return web.Response(body=body, content_type=self._json.content_type)

    async def _watch(self, request: web.Request, voice: Voice) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": voice.content_type})
        await answer.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            for node in self._nodes(voice):
                await answer.write(voice.event(b"ADDED", node))
            await answer.write(voice.event(b"BOOKMARK", voice.end_of_list(self._version)))
        self._watchers[answer] = voice
        try:
            await asyncio.Event().wait()  # until the client goes, which cancels this
        finally:
            del self._watchers[answer]
        return answer

    def _voice(self, request: web.Request) -> Voice:
        """As the client prefers it: the first that it accepts."""
        first = request.headers.get("Accept", "").split(",")[0].split(";")[0]
        return self._protobuf if self._protobuf and first == self._protobuf.content_type else self._json

    def _nodes(self, voice: Voice) -> Iterator[bytes]:
        return (voice.node(name, _FIRST_VERSION + number) for number, name in enumerate(self._names))


def _template(raw: dict[str, Any]) -> bytes:
    """The node's bytes with marks where copies and heartbeats differ."""
    copy = orjson.loads(orjson.dumps(raw))
    name = copy["metadata"]["name"]
    copy["metadata"] |= {"uid": f"{_NAME.decode()}-uid", "resourceVersion": _VERSION.decode()}
    copy |= {"kind": "Node", "apiVersion": "v1"}
    for condition in copy["status"]["conditions"]:
        condition["lastHeartbeatTime"] = _BEAT.decode()
    return orjson.dumps(copy).replace(f'"{name}"'.encode(), b'"' + _NAME + b'"')
