"""The objects of a worker: as designed, valid, and as admission leaves them."""

from copy import deepcopy

import kubernetes_validate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.config.scaler import WorkerScaler
from ebbtide.model import CellLabels
from reconciler.scaler.contract import Arrival
from reconciler.scaler.dedicated.names import set_name
from reconciler.scaler.dedicated.objects import Plan, service, stateful_set
from reconciler.scaler.dedicated.sizes import Sizes, tiers_of
from reconciler.scaler.objects import Object
from reconciler.scaler.pods import worker_set
from reconciler.scaler.task import TaskId
from reconciler.scaler.template import read_template
from tests.reconciler.scaler.dedicated.test_names import TASKS
from tests.reconciler.scaler.templates import NAMESPACE, Raw, template
from tests.webhook.builders import Cluster, admitted
from webhook.decide import Rules

SCHEMAS = "1.35"
CELLS = CellLabels()
G = CELLS.group
GIB = 1 << 30
ID1 = TaskId.parse("1-1701753296955293956-139-0")
NAME = "load-data-worker-1-1701753296955293956-139-0"
SIZES = Sizes(tiers_of(()), max_cores=4, min_storage_gb=20)


def plan(task: TaskId = ID1, size: int = 3 * GIB) -> Plan:
    return Plan(set_name("load-data-worker", task), "load-data-worker", Arrival(task, 7, size), SIZES.of(size))


def made(raw: Raw | None = None, what: Plan | None = None) -> Object:
    return stateful_set(read_template(raw or template()), what or plan(), CELLS)


def headless(owner: Object) -> Object:
    stored = deepcopy(owner)
    stored["metadata"] |= {"uid": "8c1c5e6e-0000-4000-8000-000000000001", "resourceVersion": "1"}
    return service(worker_set(stored), "load-data-worker", 19500)


LABELS = {
    "app": "load-data-worker",
    "app.kubernetes.io/name": "load-data-worker",
    "app.kubernetes.io/component": "load-data-worker",
    "app.kubernetes.io/service": NAME,
    "ebbtide/pool": "dedicated",
}


def test_ws_15_the_task_stands_on_the_set() -> None:
    assert made()["metadata"] == {
        "name": NAME,
        "namespace": NAMESPACE,
        "labels": LABELS,
        "annotations": {
            "ebbtide/task-id": str(ID1),
            "ebbtide/data-size": str(3 * GIB),
            "ebbtide/cluster-id": "7",
        },
    }


def test_ws_16_what_ties_the_copy_to_its_template_is_replaced() -> None:
    spec = made(template(ordinals={"start": 5}, minReadySeconds=3))["spec"]
    assert spec["replicas"] == 1
    assert spec["serviceName"] == NAME
    assert spec["selector"] == {"matchLabels": {"app.kubernetes.io/service": NAME}}
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Delete", "whenScaled": "Delete"}
    assert spec["minReadySeconds"] == 3
    assert "ordinals" not in spec


def test_ws_16_the_pod_is_labelled_and_busy_from_the_start() -> None:
    assert made()["spec"]["template"]["metadata"]["labels"] == {**LABELS, "ebbtide/busy": "true"}


def test_ws_16_the_selector_takes_the_pods_of_this_task_only() -> None:
    other = made(what=plan(ID1._replace(engine=1)))
    selector = made()["spec"]["selector"]["matchLabels"].items()
    assert selector <= made()["spec"]["template"]["metadata"]["labels"].items()
    assert not selector <= other["spec"]["template"]["metadata"]["labels"].items()
    assert not selector <= template()["spec"]["template"]["metadata"]["labels"].items()


def test_claims_say_whose_they_are() -> None:
    claims = made()["spec"]["volumeClaimTemplates"]
    assert [claim["metadata"]["name"] for claim in claims] == ["data", "worker0"]
    ours = {"ebbtide/pool": "dedicated", "ebbtide/worker": NAME}
    assert all(ours.items() <= claim["metadata"]["labels"].items() for claim in claims)
    assert "status" not in claims[0]


def test_ws_16_the_service_is_headless_owned_and_names_pods_that_are_not_ready() -> None:
    made_service = headless(made())
    assert made_service["metadata"]["ownerReferences"] == [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME, "uid": "8c1c5e6e-0000-4000-8000-000000000001"}
    ]
    assert made_service["metadata"]["name"] == NAME
    assert made_service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"app.kubernetes.io/service": NAME},
        "ports": [{"name": "load-data", "port": 19500, "targetPort": 19500, "protocol": "TCP"}],
    }


def test_ws_17_the_image_is_that_of_the_template_at_the_time() -> None:
    raw = template()
    raw["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/tikv:2"
    assert made(raw)["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/tikv:2"


def affinity(*groups: str) -> Raw:
    terms = [{"matchExpressions": [{"key": G, "operator": "In", "values": [group]}]} for group in groups]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


TOLERATION = {"key": G, "operator": "Equal", "value": "g", "effect": "NoSchedule"}
PODS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.sampled_from([{}, {G: "g"}, {G: "h"}, {"disk": "ssd"}]),
        "affinity": st.sampled_from([affinity("g"), affinity("g", "h"), {}]),
        "tolerations": st.lists(
            st.sampled_from([TOLERATION, {**TOLERATION, "value": "h"}, {"key": G, "operator": "Exists"}]), max_size=2
        ),
    },
)


@settings(max_examples=30)  # validation takes its time
@given(PODS, TASKS, st.integers(0, WorkerScaler().max_size))
def test_objects_are_valid_for_any_task_and_size(spec: Raw, task: TaskId, size: int) -> None:
    owner = made(template(spec), plan(task, size))
    kubernetes_validate.validate(owner, SCHEMAS)
    kubernetes_validate.validate(headless(owner), SCHEMAS)


@given(PODS, TASKS, st.integers(0, WorkerScaler().max_size))
def test_admission_finds_nothing_to_add_to_a_set_of_ours(spec: Raw, task: TaskId, size: int) -> None:
    owner = made(template(spec), plan(task, size))
    stored, decision, operations = admitted(owner, None, Cluster(), Rules())
    assert decision.pool == "dedicated"
    assert (stored, operations) == (owner, [])


@given(PODS, TASKS, st.integers(0, WorkerScaler().max_size))
def test_admission_finds_nothing_to_add_to_a_pod_of_ours_while_no_zone_is_blocked(
    spec: Raw, task: TaskId, size: int
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", **deepcopy(made(template(spec), plan(task, size))["spec"]["template"])}
    open_cluster = Cluster(nodes="g/a g/b h/a dedicated/a")
    assert admitted(pod, None, open_cluster, Rules())[2] == []


def test_admission_keeps_a_pod_of_ours_out_of_a_blocked_zone() -> None:
    raw = template({"nodeSelector": {G: "g"}})
    pod = {"apiVersion": "v1", "kind": "Pod", **made(raw)["spec"]["template"]}
    stored, decision, _ = admitted(pod, None, Cluster(nodes="g/a! g/b"), Rules())
    assert decision.exclusion.zones == ("a",)
    assert stored["metadata"]["labels"] == pod["metadata"]["labels"]


@pytest.mark.parametrize("size", [0, 500 * GIB])
def test_the_node_group_is_named_where_the_size_has_one(size: int) -> None:
    labels = made(what=plan(size=size))["spec"]["template"]["metadata"]["labels"]
    assert labels.get("ebbtide/node-group") == ("dedicated" if size else None)
