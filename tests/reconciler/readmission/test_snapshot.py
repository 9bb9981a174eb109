"""Facts for re-admission: waiting pods, our webhooks, owners, and what has to settle."""

from typing import Any

import pytest

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Rules
from ebbtide.exclusion.volumes import BoundVolumes
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.store import Store
from ebbtide.model import claim_facts, namespace_facts, volume_facts
from reconciler.readmission.decide import History, OwnerKey, PendingPod
from reconciler.readmission.snapshot import SETTLE, Owners, Snapshot, Watched, pending_pod, webhook_facts
from tests.ebbtide.exclusion.builders import LABELS, Raw, node_store
from tests.reconciler.readmission.builders import WEB, raw_pod, waiting

OWNER = OwnerKey("default", WEB)
POD_RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
WITH_CA = {"service": {"name": "ebbtide-webhook", "namespace": "x"}, "caBundle": "LS0t"}


def configuration(rules: list[Raw], client: Raw) -> Raw:
    metadata = {"name": "ebbtide-pods", "uid": "u", "resourceVersion": "3"}
    return {"metadata": metadata, "webhooks": [{"name": "pods.ebbtide", "clientConfig": client, "rules": rules}]}


@pytest.mark.parametrize(
    ("rules", "client", "takes"),
    [
        ([POD_RULE], WITH_CA, True),
        ([POD_RULE], {"url": "https://127.0.0.1:8443/mutate"}, True),
        ([POD_RULE], {"service": WITH_CA["service"]}, False),
        ([POD_RULE], {"service": WITH_CA["service"], "caBundle": ""}, False),
        ([{**POD_RULE, "operations": ["*"], "apiGroups": ["*"], "resources": ["*"]}], WITH_CA, True),
        ([{**POD_RULE, "resources": ["*/*"]}], WITH_CA, True),
        ([{**POD_RULE, "operations": ["UPDATE"]}], WITH_CA, False),
        ([{**POD_RULE, "apiGroups": ["apps"], "resources": ["statefulsets"]}], WITH_CA, False),
        ([{**POD_RULE, "resources": ["pods/eviction"]}], WITH_CA, False),
        ([{**POD_RULE, "apiGroups": ["apps"], "resources": ["statefulsets"]}, POD_RULE], WITH_CA, True),
        ([], WITH_CA, False),
    ],
)
def test_a_webhook_counts_when_new_pods_are_sent_to_it(rules: list[Raw], client: Raw, takes: bool) -> None:
    """A Service without a CA bundle cannot be called, so deleting for its sake would be no use."""
    assert webhook_facts(configuration(rules, client)).takes_pods is takes


def test_a_configuration_without_entries_counts_for_nothing() -> None:
    """As it stands while somebody edits it."""
    assert not webhook_facts({**configuration([], {}), "webhooks": None}).takes_pods


@pytest.mark.parametrize("status", [None, {}, {"phase": "Pending"}, {"phase": "Pending", "containerStatuses": []}])
def test_a_pod_that_waits_has_not_run(status: Raw | None) -> None:
    """Whatever of its status is missing, null or empty."""
    raw = raw_pod()
    raw["status"] = status
    pod = pending_pod(raw, LABELS)
    assert (pod.pending, pod.ran, pod.deleting, pod.gated) == (True, False, False, False)


def test_a_pod_that_makes_no_sense_is_left_out_of_the_store() -> None:
    """It is nobody's pod that we could judge."""
    store = Store(lambda raw: pending_pod(raw, LABELS))
    store.apply("ADDED", raw_pod(tolerations="all"))
    assert len(store) == 0


def test_two_readings_are_equal_unless_something_changed_that_counts() -> None:
    """So that the scheduler's repeated refusals cause no work."""
    raw = raw_pod()
    refusal = {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    later = {**raw, "status": {"phase": "Pending", "conditions": [refusal]}}
    later["metadata"] = {**raw["metadata"], "resourceVersion": "9"}
    assert pending_pod(raw, LABELS) == pending_pod(later, LABELS)


def added(store: Store[Any], *raws: Raw) -> None:
    for raw in raws:
        metadata = {**raw["metadata"], "resourceVersion": str(store.version + 1)}
        store.apply("ADDED", {**raw, "metadata": metadata})


def synced(store: Store[Any]) -> None:
    """The first list is complete, and empty."""
    store.swap(store.gather(), 1)


def pod_store(*raws: Raw) -> Store[PendingPod]:
    store = Store(lambda raw: pending_pod(raw, LABELS))
    added(store, *raws)
    return store


def test_owners_follow_their_pods() -> None:
    """An owner without a waiting pod is not kept."""
    store = pod_store(raw_pod("web-1"), raw_pod("web-2", owner={"kind": "Node", "name": "n", "uid": "n"}))
    owners = Owners(store)
    assert owners.all() == (OWNER,)
    added(store, raw_pod("web-3"))
    assert sorted(pod.name for pod in owners.pods(OWNER)) == ["web-1", "web-3"]
    for name in ("web-1", "web-3"):
        gone = raw_pod(name)
        gone["metadata"]["resourceVersion"] = str(store.version + 1)
        store.apply("DELETED", gone)
    assert owners.all() == ()


def test_a_pod_is_known_in_its_newest_version_although_nothing_was_told() -> None:
    """A deletion in an older one would be refused for ever, since every refusal of the scheduler makes a new one."""
    store = pod_store(raw_pod())
    owners = Owners(store)
    refused = raw_pod(status={"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]})
    refused["metadata"]["resourceVersion"] = "50"
    store.apply("MODIFIED", refused)
    assert [pod.resource_version for pod in owners.pods(OWNER)] == [50]


class Scene:
    """All stores of a snapshot, to be filled by hand."""

    def __init__(self, nodes: str, *, aware: bool = True) -> None:
        self.nodes = node_store(nodes)
        self.pods = pod_store()
        self.namespaces, self.webhooks = Store(namespace_facts), Store(webhook_facts)
        self.claims, self.volumes = Store(claim_facts), Store(volume_facts)
        volumes = BoundVolumes(self.claims, self.volumes) if aware else None
        watched = Watched(self.pods, self.namespaces, self.webhooks, volumes)
        zones = BlockedZones(self.nodes, vocabulary.PREVENT_TAINT_KEY)
        self.snapshot = Snapshot(watched, zones, Rules())


def named(name: str, **rest: Any) -> Raw:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, **rest}


def test_everything_must_have_been_read_before_anything_is_known() -> None:
    """An empty store says nothing about a cluster."""
    scene = Scene("a! b")
    for store in (scene.pods, scene.namespaces, scene.webhooks, scene.claims, scene.volumes):
        assert not scene.snapshot.known
        synced(store)
    assert scene.snapshot.known


def test_the_facts_of_an_owner_come_from_all_stores() -> None:
    """Guard and override of the namespace, webhook, zones, and what was handed in."""
    scene = Scene("a! b")
    added(scene.pods, raw_pod(labels={}))
    facts = scene.snapshot.owner(OWNER, History(futile=1), 0.0)
    assert (facts.webhook, facts.ignored, facts.history.futile) == (False, False, 1)
    assert [exclusion.zones for _, exclusion in facts.pods] == [()]
    namespace = named("default")
    namespace["metadata"] |= {"labels": {"ebbtide/guard": "enabled"}, "annotations": {"ebbtide/block": "ignore"}}
    added(scene.namespaces, namespace)
    added(scene.webhooks, configuration([POD_RULE], WITH_CA))
    facts = scene.snapshot.owner(OWNER, History(), 0.0)
    assert (facts.webhook, facts.ignored) == (True, True)
    assert [exclusion.zones for _, exclusion in facts.pods] == [("a",)]


@pytest.mark.parametrize(("aware", "zones"), [(True, ()), (False, ("a",))])
def test_wh_27_a_bound_volume_keeps_its_zone_allowed(aware: bool, zones: tuple[str, ...]) -> None:
    """Unless awareness of volumes is switched off."""
    scene = Scene("a! b", aware=aware)
    claim = named("data", spec={"volumeName": "pv-1"})
    claim["metadata"]["namespace"] = "default"
    allowed = {"matchExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": ["a"]}]}
    added(scene.claims, claim)
    added(scene.volumes, named("pv-1", spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [allowed]}}}))
    pod = waiting(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    assert scene.snapshot.exclusion(pod).zones == zones
    assert scene.snapshot.exclusion(waiting()).zones == ("a",)


def test_zones_settle_group_by_group() -> None:
    """A storm in one group does not hold up the pods of another."""
    scene = Scene("a! b h/a")
    of_g, anywhere = (waiting(),), (waiting(selector={}),)
    scene.snapshot.changed(100.0, "h")
    assert scene.snapshot.settles_in(of_g, 100.0) == 0
    assert scene.snapshot.settles_in(anywhere, 100.0) == SETTLE
    scene.snapshot.changed(100.0, "g")
    assert scene.snapshot.settles_in(of_g, 101.0) == SETTLE - 1
    assert scene.snapshot.settles_in(of_g, 100.0 + SETTLE) == 0
    scene.snapshot.changed(200.0)
    assert scene.snapshot.settles_in(of_g, 200.0) == SETTLE
