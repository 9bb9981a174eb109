"""As much of Kubernetes' protobuf as it takes to play a node back to clients that ask for it.

What the API server has encoded is taken apart only as far as the metadata, where copies differ; the rest stays as it
is, byte for byte. Field numbers are those of k8s.io/apimachinery (runtime, meta/v1 generated.proto) and k8s.io/api.
"""

import struct
from collections.abc import Iterator

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
# runtime.Unknown; Node; ObjectMeta; WatchEvent; RawExtension
_UNKNOWN_TYPE, _UNKNOWN_RAW = 1, 2
_NODE_METADATA = 1
_NAME, _UID, _RESOURCE_VERSION, _ANNOTATIONS = 1, 5, 6, 12
_EVENT_TYPE, _EVENT_OBJECT, _RAW = 1, 2, 1
# How a field is written: as a number, or as so many bytes.
_NUMBER, _BYTES = 0, 2


class EncodedNode:
    """A node as the API server sends it in protobuf, to be copied under other names."""

    def __init__(self, encoded: bytes) -> None:
        if not encoded.startswith(_MAGIC):
            raise ValueError("this is no object in protobuf")
        unknown = {number: content for number, content, _ in _fields(encoded[len(_MAGIC) :])}
        self._type = unknown[_UNKNOWN_TYPE]
        node = list(_fields(unknown[_UNKNOWN_RAW]))
        metadata = b"".join(content for number, content, _ in node if number == _NODE_METADATA)
        own = (_NAME, _UID, _RESOURCE_VERSION)
        self._metadata = b"".join(whole for number, _, whole in _fields(metadata) if number not in own)
        self._rest = b"".join(whole for number, _, whole in node if number != _NODE_METADATA)

    def copy(self, name: bytes, version: int) -> bytes:
        """The node under that name."""
        own = _field(_NAME, name) + _field(_UID, name + b"-uid") + _field(_RESOURCE_VERSION, str(version).encode())
        return self._object(_field(_NODE_METADATA, own + self._metadata) + self._rest)

    def end_of_list(self, version: int) -> bytes:
        """What a bookmark carries that ends the first list."""
        annotation = _field(1, b"k8s.io/initial-events-end") + _field(2, b"true")
        metadata = _field(_RESOURCE_VERSION, str(version).encode()) + _field(_ANNOTATIONS, annotation)
        return self._object(_field(_NODE_METADATA, metadata))

    def _object(self, node: bytes) -> bytes:
        return _MAGIC + _field(_UNKNOWN_TYPE, self._type) + _field(_UNKNOWN_RAW, node)


def event(kind: bytes, encoded: bytes) -> bytes:
    """A frame of a watch."""
    message = _field(_EVENT_TYPE, kind) + _field(_EVENT_OBJECT, _field(_RAW, encoded))
    return struct.pack(">I", len(message)) + message


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Of each field its number, its content (of a number none is told), and all of it as it is written."""
    at = 0
    while at < len(message):
        begun = at
        key, at = _varint(message, at)
        if key & 7 not in (_NUMBER, _BYTES):
            raise ValueError(f"field {key >> 3} is written in way {key & 7}")
        value, at = _varint(message, at)
        content = message[at : at + value] if key & 7 == _BYTES else b""
        at += len(content)
        yield key >> 3, content, message[begun:at]


def _field(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(content)) + content


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
