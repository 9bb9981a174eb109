"""What the StatefulSet controller does next."""

from typing import Any

from ebbtide.sim.actors.replication import Plan
from ebbtide.sim.actors.statefulset import plan, pod_of, status_of
from ebbtide.sim.stored import Object
from tests.ebbtide.sim.actors.things import deleting, stateful_set


def member(owner: Object, ordinal: int, *, ready: bool = True, phase: str = "Running") -> Object:
    pod = pod_of(owner, ordinal)
    pod["metadata"]["uid"] = f"uid-{ordinal}"
    pod["status"] = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    return pod


def made(found: Plan) -> list[str]:
    return [body["metadata"]["name"] for _, body in found.create]


def removed(found: Plan) -> list[str]:
    return [body["metadata"]["name"] for _, body in found.delete]


def claim(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "spec": {}}


def test_ordinals_come_one_after_the_other() -> None:
    db = stateful_set(3)
    assert made(plan(db, [], [])) == ["db-0"]
    assert made(plan(db, [member(db, 0, ready=False)], [])) == []
    assert made(plan(db, [member(db, 0)], [])) == ["db-1"]


def test_parallel_ones_come_together() -> None:
    db = stateful_set(3, podManagementPolicy="Parallel")
    assert made(plan(db, [member(db, 1, ready=False)], [])) == ["db-0", "db-2"]


def test_ordinals_can_start_higher() -> None:
    db = stateful_set(2, podManagementPolicy="Parallel", ordinals={"start": 5})
    assert made(plan(db, [], [])) == ["db-5", "db-6"]


def test_a_pod_that_is_going_is_not_replaced_before_it_has_gone() -> None:
    db = stateful_set(2)
    found = plan(db, [deleting(member(db, 0)), member(db, 1)], [])
    assert made(found) == []
    assert removed(found) == []
    assert made(plan(db, [member(db, 1)], [])) == ["db-0"]


def test_a_failed_pod_is_removed_for_a_new_one() -> None:
    db = stateful_set(2)
    assert removed(plan(db, [member(db, 0), member(db, 1, phase="Failed")], [])) == ["db-1"]


def test_a_claim_per_template_comes_before_its_pod_and_only_once() -> None:
    db = stateful_set(1, claims=["data", "logs"])
    assert made(plan(db, [], [claim("logs-db-0")])) == ["data-db-0", "db-0"]


def test_the_pod_uses_its_own_claims() -> None:
    volumes = pod_of(stateful_set(1, claims=["data"]), 0)["spec"]["volumes"]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]


def test_no_pod_while_its_claim_is_going() -> None:
    db = stateful_set(1, claims=["data"])
    assert made(plan(db, [], [deleting(claim("data-db-0"))])) == []


def test_claims_belong_to_the_set_where_they_go_with_it() -> None:
    db = stateful_set(1, claims=["data"], persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"})
    [(_, made_claim), _] = plan(db, [], []).create
    assert made_claim["metadata"]["ownerReferences"][0]["uid"] == "uid-db"
    [(_, kept_claim), _] = plan(stateful_set(1, claims=["data"]), [], []).create
    assert "ownerReferences" not in kept_claim["metadata"]


def test_scaling_down_takes_the_highest_ordinal_first() -> None:
    db = stateful_set(1)
    members = [member(db, ordinal) for ordinal in range(3)]
    assert removed(plan(db, members, [])) == ["db-2"]
    assert removed(plan(db, [*members[:2], deleting(members[2])], [])) == []


def test_scaling_down_waits_for_the_others_to_be_healthy() -> None:
    db = stateful_set(1)
    assert removed(plan(db, [member(db, 0, ready=False), member(db, 1)], [])) == []


def test_scaling_down_in_parallel_takes_all() -> None:
    db = stateful_set(1, podManagementPolicy="Parallel")
    assert removed(plan(db, [member(db, ordinal) for ordinal in range(3)], [])) == ["db-2", "db-1"]


def test_a_scaled_down_claim_goes_with_its_pod_where_asked() -> None:
    db = stateful_set(1, claims=["data"], persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"})
    found = plan(db, [member(db, 0), member(db, 1)], [claim("data-db-0"), claim("data-db-1")])
    [(_, released)] = found.update
    assert released["metadata"]["name"] == "data-db-1"
    assert released["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


def changed(owner: Object, **spec: Any) -> Object:
    template = {**owner["spec"]["template"], "spec": {"containers": [{"name": "main", "image": "app:2"}]}}
    return {**owner, "spec": {**owner["spec"], "template": template, **spec}}


def test_a_new_template_rolls_from_the_top_one_by_one() -> None:
    old = stateful_set(2)
    new = changed(old)
    assert removed(plan(new, [member(old, 0), member(old, 1)], [])) == ["db-1"]
    assert removed(plan(new, [member(old, 0), member(new, 1, ready=False)], [])) == []
    assert removed(plan(new, [member(old, 0), member(new, 1)], [])) == ["db-0"]


def test_a_partition_and_on_delete_hold_the_roll_back() -> None:
    old = stateful_set(2)
    members = [member(old, 0), member(old, 1)]
    partitioned = changed(old, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    assert removed(plan(partitioned, members, [])) == []
    assert removed(plan(changed(old, updateStrategy={"type": "OnDelete"}), members, [])) == []


def test_the_status_tells_how_far_a_roll_is() -> None:
    old = stateful_set(2)
    members = (member(old, 0), member(old, 1))
    before = status_of(old, members)
    new = {**changed(old), "status": before}
    midway = status_of(new, (members[0], member(new, 1)))
    assert (before["readyReplicas"], before["updatedReplicas"]) == (2, 2)
    assert (midway["currentReplicas"], midway["updatedReplicas"]) == (1, 1)
    assert midway["currentRevision"] == before["currentRevision"] != midway["updateRevision"]


def test_a_set_that_is_being_deleted_makes_nothing() -> None:
    assert made(plan(deleting(stateful_set(3)), [], [])) == []
