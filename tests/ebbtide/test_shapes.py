"""A projection sees the same of an object, whether all of it was parsed or only what its shape names."""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import orjson
import pytest

from ebbtide import shapes
from ebbtide.kube import errors
from ebbtide.kube.shaped import list_reader
from ebbtide.kube.stream import events
from ebbtide.model import CellLabels, node_facts
from ebbtide.sim import objects

NODE = objects.node("a", zone="z1")
FULL_NODE = {
    **NODE,
    "metadata": {
        **NODE["metadata"],
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "annotations": {"ebbtide/block": "ignore", "ebbtide/rebalance-signal-first-seen": "2026-01-01T00:00:00Z"},
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    },
    "spec": {
        "providerID": "aws:///z1/i-0123456789abcdef0",
        "unschedulable": True,
        "taints": [{"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}],
    },
    "status": {
        "images": [{"names": ["a", "b"], "sizeBytes": 1}],
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "fine"}
        ],
    },
}


class Watched(dict[str, Any]):
    """An object that notes which fields are asked for."""

    def __init__(self, raw: Mapping[str, Any], path: str, seen: set[str]) -> None:
        super().__init__({key: _watched(value, f"{path}.{key}", seen) for key, value in raw.items()})
        self._path = path
        self._seen = seen

    def __getitem__(self, key: str) -> Any:
        self._seen.add(f"{self._path}.{key}")
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._seen.add(f"{self._path}.{key}")
        return super().get(key, default)


def _watched(value: Any, path: str, seen: set[str]) -> Any:
    if isinstance(value, dict):
        return Watched(value, path, seen)
    if isinstance(value, list):
        return [_watched(each, path, seen) for each in value]
    return value


def named(raw: Any, path: str = "") -> set[str]:
    """The paths of all fields that are there."""
    if isinstance(raw, list):
        return set().union(*(named(each, path) for each in raw))
    if not isinstance(raw, dict):
        return set()
    return set().union(*({f"{path}.{key}"} | named(value, f"{path}.{key}") for key, value in raw.items()))


async def chunks(*lines: Any) -> AsyncGenerator[bytes, None]:
    for line in lines:
        yield orjson.dumps(line) + b"\n"


async def read(raw: Mapping[str, Any], shape: object, kind: str = "MODIFIED") -> dict[str, Any]:
    [event] = [each async for each in events("GET /x", chunks({"type": kind, "object": raw}), shape)]
    return event.object


def node(raw: Mapping[str, Any]) -> Any:
    return node_facts(raw, CellLabels())


@pytest.mark.parametrize(("raw", "shape", "project"), [(FULL_NODE, shapes.Node, node)])
async def test_a_shape_names_every_field_that_its_projection_reads(
    raw: Mapping[str, Any], shape: object, project: Callable[[Mapping[str, Any]], Any]
) -> None:
    asked: set[str] = set()
    project(_watched(raw, "", asked))
    parsed = await read(raw, shape)
    assert project(parsed) == project(raw)
    assert asked & named(raw) <= named(parsed), "a field of the object is read that the shape does not name"


async def test_what_no_shape_names_is_not_even_parsed() -> None:
    parsed = await read(FULL_NODE, shapes.Node)
    assert "managedFields" not in parsed["metadata"]
    assert set(parsed["status"]) == {"conditions"}


@pytest.mark.parametrize("field", ["labels", "annotations", "ownerReferences", "creationTimestamp"])
async def test_null_is_read_as_it_is(field: str) -> None:
    raw = {**FULL_NODE, "metadata": {**FULL_NODE["metadata"], field: None}}
    assert node(await read(raw, shapes.Node)) == node(raw)


async def test_an_object_of_another_form_is_read_whole() -> None:
    raw = {**FULL_NODE, "status": {"conditions": "none"}, "extra": 1}
    assert await read(raw, shapes.Node) == raw


async def test_the_end_of_a_streamed_list_is_seen_in_any_shape() -> None:
    bookmark = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    source = chunks({"type": "BOOKMARK", "object": bookmark})
    [event] = [each async for each in events("GET /x", source, shapes.Node)]
    assert event.ends_initial_events


async def test_an_error_keeps_all_its_words() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {}}
    with pytest.raises(errors.Gone, match="too old"):
        await read(status, shapes.Node, "ERROR")


async def test_a_line_that_is_no_event_says_so_in_any_shape() -> None:
    with pytest.raises(errors.Unreachable, match="not a watch event"):
        [_ async for _ in events("GET /x", chunks(["no", "event"]), shapes.Node)]


# --- lists ----------------------------------------------------------------------------------------------------------

LIST = {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "9", "continue": "t"}}


async def test_objects_of_a_list_are_read_as_those_of_a_watch() -> None:
    """And so is what the list says of itself."""
    items = [FULL_NODE, {**FULL_NODE, "spec": {}}]
    parsed = list_reader(shapes.Node)(orjson.dumps({**LIST, "items": items}))
    assert parsed["items"] == [await read(each, shapes.Node) for each in items]
    assert parsed["metadata"] == LIST["metadata"]


@pytest.mark.parametrize("body", [{**LIST, "items": None}, LIST, {"items": []}, {}])
def test_an_empty_list_may_be_said_in_several_ways(body: dict[str, Any]) -> None:
    parsed = list_reader(shapes.Node)(orjson.dumps(body))
    assert (parsed["items"] or [], parsed["metadata"]) == ([], body.get("metadata"))


def test_a_list_with_an_object_of_another_form_is_read_whole() -> None:
    body = {**LIST, "items": [FULL_NODE, {**NODE, "status": {"conditions": "none"}}]}
    assert list_reader(shapes.Node)(orjson.dumps(body)) == body


def test_what_is_no_list_is_read_as_it_is() -> None:
    """Whoever has asked for it says what is wrong with it."""
    assert list_reader(shapes.Node)(b"[1]") == [1]
    with pytest.raises(ValueError, match="unexpected"):
        list_reader(shapes.Node)(b"<html>")
