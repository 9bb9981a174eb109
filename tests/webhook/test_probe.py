"""`helm test`'s question: a webhook that is not asked, or answers otherwise than it should, is found out."""

import copy
from collections.abc import AsyncIterator, Callable
from typing import Any

import jsonpatch
import pytest

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden
from ebbtide.sim import kinds
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from tests.ebbtide.exclusion.builders import raw_nodes
from webhook.explain import admission_of
from webhook.probe import ProbeError, manifest, missing, run

NAMESPACE = "tidb-serverless"
Pod = dict[str, Any]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Nobody is asked about pods here. Of group g zone a is blocked, of h all are, of i none is."""
    async with Cluster() as started:
        started.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for raw in raw_nodes("a! b h/a! h/b! i/a"):
            del raw["metadata"]["resourceVersion"], raw["metadata"]["uid"]
            started.create({"apiVersion": "v1", "kind": "Node", **raw})
        yield started


async def as_expected(cluster: Cluster) -> Pod:
    """The probe's pod as the webhook makes it."""
    pod = manifest(Settings(), NAMESPACE, "g")
    async with Client(cluster.access(), field_manager="test", user_agent="test") as client:
        patch = (await admission_of(client, Settings(), pod))["patch"]
    changed: Pod = jsonpatch.apply_patch(pod, patch)
    return changed


async def test_a_webhook_that_is_not_asked_is_found_out(cluster: Cluster) -> None:
    """The group is one in which some zones are blocked: the exclusion is missed as well. Nothing is stored."""
    with pytest.raises(ProbeError) as caught:
        await run(Settings(), cluster.access(), NAMESPACE, within=0)
    said = str(caught.value)
    assert "blocked for it: a" in said
    for lacking in ("ebbtide/node-group=None, not g", "ebbtide/blocked-zones=None, not a", "node affinity is None"):
        assert lacking in said
    assert cluster.storage.list(kinds.PODS) == []


async def test_a_refused_creation_is_told(cluster: Cluster) -> None:
    cluster.faults.inject(Answer(403, "Forbidden"), When("POST", "*/pods"))
    with pytest.raises(Forbidden, match="by dry run"):
        await run(Settings(), cluster.access(), NAMESPACE, within=0)


SPOILED: dict[str, tuple[Callable[[Pod], object], str]] = {
    "a label": (lambda pod: pod["metadata"]["labels"].pop(vocabulary.NODE_GROUP_PIN_LABEL), "labels have"),
    "an annotation": (lambda pod: pod["metadata"].pop("annotations"), "annotations have"),
    "the toleration": (lambda pod: pod["spec"].pop("tolerations"), "there is no toleration"),
    "the affinity": (lambda pod: pod["spec"].pop("affinity"), "the required node affinity is None"),
}


@pytest.mark.parametrize(("spoil", "named"), SPOILED.values(), ids=SPOILED.keys())
async def test_each_part_is_missed(spoil: Callable[[Pod], object], named: str, cluster: Cluster) -> None:
    expected = await as_expected(cluster)
    found = copy.deepcopy(expected)
    spoil(found)
    (said,) = missing(expected, found)
    assert named in said


async def test_what_others_add_is_none_of_its_business(cluster: Cluster) -> None:
    expected = await as_expected(cluster)
    found = copy.deepcopy(expected)
    found["metadata"]["labels"]["team"] = "storage"
    found["metadata"]["annotations"]["injected"] = "true"
    found["spec"]["tolerations"].append({"key": "node.kubernetes.io/not-ready", "operator": "Exists"})
    assert list(missing(expected, found)) == []
