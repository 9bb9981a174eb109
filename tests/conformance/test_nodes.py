"""Taints and annotations of nodes: what a JSON patch of exactly one entry does, and does not do, to the others."""

import asyncio
from typing import Any

import pytest

from ebbtide.kube import patch
from ebbtide.kube.client import Object
from ebbtide.kube.errors import Conflict, Invalid
from ebbtide.kube.resources import NODES
from tests.conformance.subject import Subject, version

FIRST = {"key": "example.com/first", "value": "1", "effect": "NoSchedule"}
SECOND = {"key": "example.com/second", "effect": "PreferNoSchedule"}
OURS = {"key": "ebbtide/prevent-ca-scale-up", "value": "1700000000", "effect": "NoSchedule"}


async def _node(subject: Subject, *taints: dict[str, str]) -> str:
    name = await subject.make_node()
    if taints:
        await subject.client.patch_merge(NODES, name, {"spec": {"taints": list(taints)}})
    return name


async def _patch(subject: Subject, node: str, *operations: dict[str, Any]) -> Object:
    return await subject.client.patch_json(NODES, node, operations)


async def test_a_taint_is_appended(subject: Subject) -> None:
    """Appending keeps the others and their order, down to the fields that they do not have."""
    node = await _node(subject, FIRST, SECOND)
    patched = await _patch(subject, node, patch.add("/spec/taints/-", OURS))
    assert patched["spec"]["taints"] == [FIRST, SECOND, OURS]


async def test_the_first_taint_needs_a_list(subject: Subject) -> None:
    """A node without taints has no list to append to: that is 422, and the list has to be added whole."""
    node = await _node(subject)
    assert "taints" not in (await subject.client.get(NODES, node))["spec"]
    with pytest.raises(Invalid) as caught:
        await _patch(subject, node, patch.add("/spec/taints/-", OURS))
    assert caught.value.code == 422
    patched = await _patch(subject, node, patch.add("/spec/taints", [OURS]))
    assert patched["spec"]["taints"] == [OURS]


async def test_an_absent_list_can_be_tested_for(subject: Subject) -> None:
    """`test` of the absent list with null passes while there is none, and fails as soon as somebody adds a taint."""
    node = await _node(subject)
    guarded = [patch.test("/spec/taints", None), patch.add("/spec/taints", [OURS])]
    await _patch(subject, node, *guarded)
    with pytest.raises(Invalid):
        await _patch(subject, node, *guarded)


async def test_a_taint_is_changed_in_its_place(subject: Subject) -> None:
    """A `test` of the entry at its index makes a change of exactly that entry; a moved entry is 422."""
    node = await _node(subject, FIRST, OURS, SECOND)
    operations = [patch.test("/spec/taints/1", OURS), patch.replace("/spec/taints/1/value", "1800000000")]
    patched = await _patch(subject, node, *operations)
    assert patched["spec"]["taints"] == [FIRST, OURS | {"value": "1800000000"}, SECOND]
    await subject.client.patch_merge(NODES, node, {"spec": {"taints": [OURS, FIRST, SECOND]}})
    with pytest.raises(Invalid) as caught:
        await _patch(subject, node, *operations)
    assert caught.value.code == 422


async def test_a_taint_is_removed_from_between(subject: Subject) -> None:
    """Removing one entry closes the gap; an index past the end is 422."""
    node = await _node(subject, FIRST, OURS, SECOND)
    patched = await _patch(subject, node, patch.test("/spec/taints/1/key", OURS["key"]), patch.remove("/spec/taints/1"))
    assert patched["spec"]["taints"] == [FIRST, SECOND]
    with pytest.raises(Invalid):
        await _patch(subject, node, patch.remove("/spec/taints/2"))


@pytest.mark.parametrize("operation", [patch.remove("/spec/taints/0"), patch.replace("/spec/taints", [])])
async def test_an_empty_list_is_no_list(subject: Subject, operation: dict[str, Any]) -> None:
    """When the last taint goes, the list goes with it."""
    node = await _node(subject, OURS)
    patched = await _patch(subject, node, operation)
    assert "taints" not in patched["spec"]


async def test_the_same_taint_twice(subject: Subject) -> None:
    """Two taints of one key and effect are 422; the same key with another effect is fine."""
    node = await _node(subject, OURS)
    with pytest.raises(Invalid) as caught:
        await _patch(subject, node, patch.add("/spec/taints/-", OURS | {"value": "other"}))
    assert caught.value.code == 422
    patched = await _patch(subject, node, patch.add("/spec/taints/-", OURS | {"effect": "NoExecute"}))
    assert len(patched["spec"]["taints"]) == 2


@pytest.mark.parametrize("broken", [{"effect": "Never"}, {"effect": ""}, {"value": "no value!"}, {"key": "no key!"}])
async def test_an_impossible_taint(subject: Subject, broken: dict[str, str]) -> None:
    """An unknown effect and a malformed key or value are 422."""
    node = await _node(subject)
    with pytest.raises(Invalid) as caught:
        await _patch(subject, node, patch.add("/spec/taints", [OURS | broken]))
    assert caught.value.code == 422


async def test_when_a_taint_was_added(subject: Subject) -> None:
    """`timeAdded` is kept to the second and in UTC, what is no time is refused; the server sets none by itself."""
    node = await _node(subject)
    timed = OURS | {"timeAdded": "2026-01-02T03:04:05Z"}
    patched = await _patch(subject, node, patch.add("/spec/taints", [timed, FIRST]))
    assert patched["spec"]["taints"] == [timed, FIRST]
    fraction = OURS | {"timeAdded": "2026-01-02T05:04:05.678+02:00"}
    patched = await _patch(subject, node, patch.replace("/spec/taints/0", fraction))
    assert patched["spec"]["taints"][0]["timeAdded"] == "2026-01-02T03:04:05Z"
    with pytest.raises(Invalid):
        await _patch(subject, node, patch.add("/spec/taints/-", SECOND | {"timeAdded": "yesterday"}))


async def test_of_two_writers_on_one_version_one_is_refused(subject: Subject) -> None:
    """Two who append after the same read, each naming the version that it read: one gets 409."""
    node = await _node(subject, FIRST)
    read = (await subject.client.get(NODES, node))["metadata"]["resourceVersion"]
    appended = [
        _patch(subject, node, patch.replace("/metadata/resourceVersion", read), patch.add("/spec/taints/-", taint))
        for taint in (OURS, SECOND)
    ]
    answers = await asyncio.gather(*appended, return_exceptions=True)
    assert [type(answer) for answer in answers if isinstance(answer, BaseException)] == [Conflict]
    assert len((await subject.client.get(NODES, node))["spec"]["taints"]) == 2


async def test_writers_without_a_version_do_not_lose_each_other(subject: Subject) -> None:
    """Patches that name no version are applied one after the other, each to what the one before it left."""
    node = await _node(subject, FIRST)
    taints = [{"key": f"example.com/{index}", "effect": "NoSchedule"} for index in range(8)]
    await asyncio.gather(*(_patch(subject, node, patch.add("/spec/taints/-", taint)) for taint in taints))
    kept = (await subject.client.get(NODES, node))["spec"]["taints"]
    assert kept[0] == FIRST
    assert sorted(taint["key"] for taint in kept[1:]) == [taint["key"] for taint in taints]


async def test_an_annotation_and_a_taint_in_one_write(subject: Subject) -> None:
    """Annotation keys with a slash are escaped; one patch changes both, in one version."""
    node = await _node(subject, FIRST)
    before = await subject.client.patch_merge(NODES, node, {"metadata": {"annotations": {"example.com/a": "x"}}})
    key = "ebbtide/rebalance-signal-first-seen"
    path = patch.pointer("metadata", "annotations", key)
    patched = await _patch(subject, node, patch.add(path, "2026-01-02T03:04:05Z"), patch.add("/spec/taints/-", OURS))
    assert patched["metadata"]["annotations"][key] == "2026-01-02T03:04:05Z"
    assert patched["metadata"]["annotations"]["example.com/a"] == "x"
    assert patched["spec"]["taints"] == [FIRST, OURS]
    assert version(patched) > version(before)


async def test_a_merge_patch_replaces_the_whole_list(subject: Subject) -> None:
    """Which is why a merge patch is no way to add a taint."""
    node = await _node(subject, FIRST, SECOND)
    patched = await subject.client.patch_merge(NODES, node, {"spec": {"taints": [OURS]}})
    assert patched["spec"]["taints"] == [OURS]


async def test_provider_and_pod_network_are_fixed_once_set(subject: Subject) -> None:
    """A node's provider ID can be set and not changed; its labels and taints can."""
    node = await _node(subject)
    await subject.client.patch_merge(NODES, node, {"spec": {"providerID": "aws:///a/i-1"}})
    with pytest.raises(Invalid):
        await subject.client.patch_merge(NODES, node, {"spec": {"providerID": "aws:///a/i-2"}})
