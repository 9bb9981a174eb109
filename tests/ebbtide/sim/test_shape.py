"""What is left of an object once it is stored."""

import pytest

from ebbtide.sim import objects
from ebbtide.sim.kinds import KINDS, NODES, PODS, kind_of
from ebbtide.sim.routes import Target, target
from ebbtide.sim.shape import tidy
from tests.ebbtide.sim.talk import NODES as NODES_PATH
from tests.ebbtide.sim.talk import PODS as PODS_PATH
from tests.ebbtide.sim.talk import Object, embedded, simulated


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"spec": {"taints": []}}, {"spec": {}}),
        ({"spec": {"taints": None, "unschedulable": False}}, {"spec": {}}),
        ({"spec": {"unschedulable": True}}, {"spec": {"unschedulable": True}}),
        ({"metadata": {"labels": {}, "annotations": None}}, {"metadata": {}}),
        ({"metadata": {"annotations": {"empty": ""}}}, {"metadata": {"annotations": {"empty": ""}}}),
        ({"spec": {"selector": {}, "podSelector": {}}}, {"spec": {"selector": {}, "podSelector": {}}}),
        ({"spec": {"volumes": [{"emptyDir": {}, "name": ""}]}}, {"spec": {"volumes": [{"emptyDir": {}}]}}),
        ({"spec": {"holderIdentity": "", "replicas": 0}}, {"spec": {"holderIdentity": "", "replicas": 0}}),
        ({"spec": {"taints": [{"key": "k", "value": ""}]}}, {"spec": {"taints": [{"key": "k"}]}}),
    ],
)
def test_empty_fields(given: Object, kept: Object) -> None:
    """What Go's `omitempty` leaves out is left out, and nothing else."""
    assert tidy(given) == kept


@simulated
async def test_a_pod_is_filled_in() -> None:
    """Policies, tolerations and quality of service are there as the real server's admission leaves them."""
    async with embedded() as talk:
        answer = await talk.post(PODS_PATH, {"metadata": {"name": "p"}, "spec": objects.pod_spec()})
        spec, status = answer.body["spec"], answer.body["status"]
        assert spec["restartPolicy"] == "Always"
        assert spec["schedulerName"] == "default-scheduler"
        tolerated = [entry["key"] for entry in spec["tolerations"]]
        assert tolerated == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        assert status == {"phase": "Pending", "qosClass": "Burstable"}


@simulated
async def test_builders_make_what_the_server_accepts() -> None:
    """Every builder's object is stored, and the node says what group and zone it is in."""
    async with embedded() as talk:
        created = talk.cluster.create(
            objects.node("n", group="db", zone="us-east-1a"),
            objects.namespace("ns"),
            objects.stateful_set("db", claims=["data"]),
            objects.deployment("web"),
            objects.replica_set("rs"),
            objects.budget("b", match={"app": "db"}, min_available="50%"),
            objects.pod("p", node="n"),
        )
        assert len(created) == 7
        labels = (await talk.get(f"{NODES_PATH}/n")).body["metadata"]["labels"]
        assert labels["topology.kubernetes.io/zone"] == "us-east-1a"
        assert labels["topology.kubernetes.io/region"] == "us-east-1"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/api/v1/nodes", Target(NODES)),
        ("/api/v1/nodes/a", Target(NODES, "", "a")),
        ("/api/v1/nodes/a/status", Target(NODES, "", "a", "status")),
        ("/api/v1/pods", Target(PODS)),
        ("/api/v1/namespaces/x/pods/p/eviction", Target(PODS, "x", "p", "eviction")),
        ("/api/v1/namespaces/x", Target(KINDS[0], "", "x")),
        ("/api/v1/namespaces/x/nodes/a", None),
        ("/api/v1/nodes/a/eviction", None),
        ("/api/v1", None),
        ("/apis/apps/v1/pods", None),
    ],
)
def test_paths(path: str, meant: Target | None) -> None:
    """A path means one resource or none."""
    assert target(path) == meant


def test_every_kind_is_found_by_its_name() -> None:
    """Owner references name kinds, not resources."""
    for kind in KINDS:
        assert kind_of(kind.api_version, kind.kind) is kind
