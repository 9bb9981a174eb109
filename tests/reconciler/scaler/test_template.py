"""What a worker's pod takes from the template, and which templates give none."""

import pytest

from ebbtide.model import CellLabels
from reconciler.scaler.size import Size, cores, memory
from reconciler.scaler.template import UnusableTemplateError, Wear, claim_templates, pod_template, read_template
from tests.reconciler.scaler.templates import Raw, first_container, template

CELLS = CellLabels()
G = CELLS.group
SIZE = Size(request_cpu=2, limit_cpu=3.5, request_memory=8, limit_memory=14, workers=2, storage_gb=20)
PINNED = Size(1, 1, 4, 4, 1, 20, node_group="big")
WEAR = Wear({"app": "w"}, {"note": "x"}, "1-2-3-4")


def pod(raw: Raw, size: Size = SIZE) -> Raw:
    return pod_template(read_template(raw), WEAR, size, CELLS)


@pytest.mark.parametrize(
    ("raw", "missing"),
    [
        pytest.param(template({"containers": []}), "container", id="no container"),
        pytest.param(template({"containers": None}), "container", id="containers are null"),
        pytest.param(template(first_container(env=None)), "environment", id="no env"),
        pytest.param(template(first_container(env=[])), "environment", id="empty env"),
        pytest.param(template(first_container(volumeMounts=None)), "volume mounts", id="no mounts"),
        pytest.param(template(volumeClaimTemplates=None), "volume claims", id="no claims"),
        pytest.param(template(volumeClaimTemplates=[]), "volume claims", id="empty claims"),
        pytest.param({"metadata": {"name": "tikv-api"}}, "container", id="no spec"),
        pytest.param(template({"containers": "none"}), "list", id="containers of a wrong type"),
    ],
)
def test_ws_18_a_template_that_cannot_be_used_says_what_it_lacks(raw: Raw, missing: str) -> None:
    with pytest.raises(UnusableTemplateError, match=missing):
        read_template(raw)


def test_ws_18_everything_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(UnusableTemplateError) as refused:
        read_template(template(first_container(env=None, volumeMounts=None), volumeClaimTemplates=None))
    assert all(word in str(refused.value) for word in ("environment", "volume mounts", "volume claims"))


def test_ws_18_missing_tolerations_are_no_fault() -> None:
    assert "tolerations" not in pod(template())["spec"]


def test_ws_16_the_first_container_works_and_the_others_stay_as_they_are() -> None:
    first, second = pod(template())["spec"]["containers"]
    assert first["resources"] == {
        "requests": {"cpu": "2", "memory": "8Gi"},
        "limits": {"cpu": "3.5", "memory": "14Gi"},
    }
    assert first["env"] == [
        {"name": "ZONE", "value": "a"},
        {"name": "TIKV_LOAD_DATA_WORKER", "value": "true"},
        {"name": "TIKV_LOAD_DATA_WORKER_WORKER_NUM_ENV", "value": "2"},
    ]
    assert second["resources"] == {"requests": {"cpu": "100m"}}
    assert "env" not in second


def test_ws_16_no_container_has_a_liveness_probe() -> None:
    containers = pod(template())["spec"]["containers"]
    assert not any("livenessProbe" in container for container in containers)
    assert "readinessProbe" in containers[0]


@pytest.mark.parametrize("path", ["/var/lib/tikv", "/var/lib/tikv/"])
def test_ws_16_each_worker_has_a_volume_below_the_first_mount(path: str) -> None:
    raw = template(first_container(volumeMounts=[{"name": "data", "mountPath": path}]))
    assert pod(raw)["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "data", "mountPath": path},
        {"name": "worker0", "mountPath": "/var/lib/tikv/1-2-3-4/worker-0"},
        {"name": "worker1", "mountPath": "/var/lib/tikv/1-2-3-4/worker-1"},
    ]


def test_ws_16_claims_are_kept_labelled_and_joined_by_those_of_the_workers() -> None:
    own, *workers = claim_templates(read_template(template()), {"mine": "yes"}, SIZE)
    assert own["metadata"] == {"name": "data", "labels": {"disk": "fast", "mine": "yes"}}
    assert own["spec"]["resources"] == {"requests": {"storage": "7Gi"}}
    assert [claim["metadata"] for claim in workers] == [
        {"name": f"worker{number}", "labels": {"mine": "yes"}} for number in (0, 1)
    ]
    assert all(
        claim["spec"]
        == {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gp3",
            "resources": {"requests": {"storage": "20Gi"}},
        }
        for claim in workers
    )


def test_a_claim_or_mount_of_the_template_that_has_a_workers_name_gives_way() -> None:
    claims = [{"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}} for name in ("worker0", "data")]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "worker0")]
    raw = template(first_container(volumeMounts=mounts), volumeClaimTemplates=claims)
    names = [claim["metadata"]["name"] for claim in claim_templates(read_template(raw), {}, SIZE)]
    mounted = [mount["name"] for mount in pod(raw)["spec"]["containers"][0]["volumeMounts"]]
    assert (names, mounted) == (["data", "worker0", "worker1"], ["data", "worker0", "worker1"])


def test_labels_are_replaced_and_annotations_of_the_pods_are_kept() -> None:
    assert pod(template())["metadata"] == {
        "labels": {"app": "w"},
        "annotations": {"prometheus.io/scrape": "true", "note": "x"},
    }


def test_fields_that_nobody_here_knows_are_copied_and_the_template_is_not_changed() -> None:
    raw = template({"futureField": {"a": [1]}})
    before = template({"futureField": {"a": [1]}})
    assert pod(raw, PINNED)["spec"]["futureField"] == {"a": [1]}
    assert raw == before


def toleration(value: str) -> Raw:
    return {"key": G, "operator": "Equal", "value": value, "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "size", "selector", "tolerations", "label"),
    [
        pytest.param({}, SIZE, None, None, None, id="no group anywhere"),
        pytest.param({}, PINNED, {G: "big"}, [toleration("big")], "big", id="group of the size"),
        pytest.param(
            {"nodeSelector": {G: "small", "disk": "ssd"}, "tolerations": [toleration("small")]},
            PINNED,
            {G: "big", "disk": "ssd"},
            [toleration("big")],
            "big",
            id="the size's group takes the place of the template's",
        ),
        pytest.param(
            {"tolerations": [{"operator": "Exists"}]},
            PINNED,
            {G: "big"},
            [{"operator": "Exists"}],
            "big",
            id="a toleration that covers the taint is enough",
        ),
        pytest.param(
            {"nodeSelector": {G: "small"}},
            SIZE,
            {G: "small"},
            [toleration("small")],
            "small",
            id="the template's own group is made explicit",
        ),
        pytest.param(
            {"nodeSelector": {G: "small"}, "tolerations": [toleration("other")]},
            SIZE,
            {G: "small"},
            [toleration("other")],
            "small",
            id="a contradiction of the template's own stays",
        ),
    ],
)
def test_node_group_becomes_selector_toleration_and_label(
    spec: Raw, size: Size, selector: Raw | None, tolerations: list[Raw] | None, label: str | None
) -> None:
    made = pod(template(spec), size)
    assert made["spec"].get("nodeSelector") == selector
    assert made["spec"].get("tolerations") == tolerations
    assert made["metadata"]["labels"].get("ebbtide/node-group") == label


def test_a_further_node_selector_is_added() -> None:
    size = Size(1, 1, 4, 4, 1, 20, selector=("disk", "nvme"))
    assert pod(template({"nodeSelector": {"arch": "arm"}}), size)["spec"]["nodeSelector"] == {
        "arch": "arm",
        "disk": "nvme",
    }


@pytest.mark.parametrize(
    ("amount", "written"),
    [(1, "1"), (3.5, "3.5"), (25, "25"), (0.1, "0.1"), (0.125, "0.125"), (0.0001, "0.001"), (1_000_000, "1000000")],
)
def test_cores_are_written_as_plain_numbers(amount: float, written: str) -> None:
    assert cores(amount) == written


@pytest.mark.parametrize(("amount", "written"), [(14, "14Gi"), (14.0, "14Gi"), (1.5, "1536Mi"), (0.4, "410Mi")])
def test_memory_is_written_in_gib_or_mib(amount: float, written: str) -> None:
    assert memory(amount) == written
