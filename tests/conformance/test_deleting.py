"""Deletion: preconditions, finalizers, grace."""

import pytest

from ebbtide.kube.errors import Conflict, NotFound, PreconditionFailed
from ebbtide.kube.resources import PODS
from ebbtide.kube.stream import DELETED, MODIFIED
from tests.conformance.subject import CONFIG_MAPS, Subject, version

STRANGER = "11111111-2222-3333-4444-555555555555"


async def test_deleting_the_one_that_is_meant(subject: Subject) -> None:
    """A UID precondition that does not hold is 409 and deletes nothing; the right one deletes."""
    created = await subject.config_map("one")
    with pytest.raises(PreconditionFailed) as caught:
        await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace, uid=STRANGER)
    assert caught.value.code == 409
    assert await subject.exists(CONFIG_MAPS, "one")
    await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace, uid=created["metadata"]["uid"])
    assert not await subject.exists(CONFIG_MAPS, "one")


async def test_deleting_the_version_that_is_meant(subject: Subject) -> None:
    """A resourceVersion precondition that is not the live one is 409."""
    created = await subject.config_map("one")
    changed = await subject.client.patch_merge(CONFIG_MAPS, "one", {"data": {"a": "1"}}, namespace=subject.namespace)
    with pytest.raises(Conflict):
        await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace, resource_version=version(created))
    await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace, resource_version=version(changed))


async def test_deleting_what_is_not_there(subject: Subject) -> None:
    """Deleting twice is 404 the second time."""
    await subject.config_map("one")
    await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace)
    with pytest.raises(NotFound):
        await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace)


async def test_a_name_is_free_again(subject: Subject) -> None:
    """A new object of the name has another UID."""
    first = await subject.config_map("one")
    await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace)
    second = await subject.config_map("one")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_a_finalizer_holds_an_object(subject: Subject) -> None:
    """It stays, marked, until the last finalizer goes; then it is gone at once."""
    created = await subject.config_map("one", finalizers=["tests.ebbtide/hold"])
    await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace)
    held = await subject.client.get(CONFIG_MAPS, "one", namespace=subject.namespace)
    assert held["metadata"]["deletionTimestamp"].endswith("Z")
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    await subject.client.patch_merge(
        CONFIG_MAPS, "one", {"metadata": {"finalizers": None}}, namespace=subject.namespace
    )
    assert not await subject.exists(CONFIG_MAPS, "one")
    events = await subject.watch_from(CONFIG_MAPS, version(created), 2)
    assert [event.type for event in events] == [MODIFIED, DELETED]


async def test_a_pod_without_a_node_goes_at_once(subject: Subject) -> None:
    """Nobody has to stop it: there is no grace period."""
    await subject.pod("one")
    await subject.client.delete(PODS, "one", namespace=subject.namespace)
    assert not await subject.exists(PODS, "one")


async def test_a_pod_on_a_node_gets_its_grace_period(subject: Subject) -> None:
    """It is marked with the time of its end; deleting it again changes nothing."""
    node = await subject.make_node()
    created = await subject.pod("one", node=node, finalizers=["tests.ebbtide/hold"])
    await subject.client.delete(PODS, "one", namespace=subject.namespace)
    events = await subject.watch_from(
        PODS, version(created), 1, field_selector="metadata.name=one", label_selector="!none"
    )
    assert events
    read = await subject.client.get(PODS, "one", namespace=subject.namespace)
    assert "deletionTimestamp" in read["metadata"]
    await subject.client.delete(PODS, "one", namespace=subject.namespace, uid=created["metadata"]["uid"])
    again = await subject.client.get(PODS, "one", namespace=subject.namespace)
    assert again["metadata"]["deletionTimestamp"] <= read["metadata"]["deletionTimestamp"]
    await subject.client.patch_merge(PODS, "one", {"metadata": {"finalizers": None}}, namespace=subject.namespace)
    await subject.eventually(lambda: _gone(subject, "one"), "the pod is gone")


async def _gone(subject: Subject, name: str) -> bool:
    return not await subject.exists(PODS, name)
