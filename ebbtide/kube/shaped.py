"""Readers of JSON that holds objects: all of each, or only the fields that a shape names (see `ebbtide.shapes`).

Where an object has not that shape everything is read as it is. All raise ValueError for what is no JSON.
"""

from collections.abc import Callable
from types import GenericAlias
from typing import Any, Final

import msgspec
import orjson

# The type of an event whose object is the server's complaint.
ERROR: Final = "ERROR"

# From the line of an event to its type and its object.
ReadEvent = Callable[[bytes], tuple[str, Any]]
ReadList = Callable[[bytes], Any]


def event_reader(shape: object) -> ReadEvent:
    """For the lines of a watch; errors are read as a whole. A line that is no event raises KeyError or TypeError."""
    if shape is None:
        return _whole_event
    decoder = msgspec.json.Decoder(msgspec.defstruct("Event", [("type", str), ("object", shape)]))

    def read(line: bytes) -> tuple[str, Any]:
        try:
            parsed: Any = decoder.decode(line)
        except msgspec.DecodeError:
            return _whole_event(line)
        return _whole_event(line) if parsed.type == ERROR else (parsed.type, parsed.object)

    return read


def list_reader(shape: object) -> ReadList:
    """For the bodies of lists."""
    if shape is None:
        return orjson.loads
    items = ("items", GenericAlias(list, (shape,)) | None, None)
    decoder = msgspec.json.Decoder(msgspec.defstruct("List", [("metadata", dict[str, Any] | None, None), items]))

    def read(body: bytes) -> Any:
        try:
            parsed: Any = decoder.decode(body)
        except msgspec.DecodeError:
            return orjson.loads(body)
        return {"metadata": parsed.metadata, "items": parsed.items}

    return read


def _whole_event(line: bytes) -> tuple[str, Any]:
    parsed = orjson.loads(line)
    return parsed["type"], parsed["object"]
