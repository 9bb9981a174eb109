"""What the ReplicaSet and the Deployment controller do next."""

from typing import Any

import pytest

from ebbtide.sim.actors.deployment import plan_deployment, plan_replica_set
from ebbtide.sim.stored import Object
from tests.ebbtide.sim.actors.things import deleting, deployment, pod


def replica_set(owner: Object, replicas: int, available: int, letters: str = "") -> Object:
    """A ReplicaSet of the Deployment's present template, or of an older one when `letters` are given."""
    [(_, body)] = plan_deployment(owner, []).create
    body["metadata"] |= {"uid": "uid-rs"}
    if letters:
        body["metadata"]["labels"] = {"pod-template-hash": letters}
    body["spec"]["replicas"] = replicas
    body["status"] = {"replicas": replicas, "availableReplicas": available}
    return body


def sizes(owner: Object, *sets: Object) -> list[tuple[bool, int]]:
    """Of each rescaled ReplicaSet: whether it is the new one, and its new size."""
    updates = plan_deployment(owner, sets).update
    return [(body["metadata"]["labels"]["pod-template-hash"] != "old", body["spec"]["replicas"]) for _, body in updates]


def test_missing_replicas_are_made_and_terminating_ones_do_not_count() -> None:
    web = replica_set(deployment(2), 2, 0)
    plan = plan_replica_set(web, [pod("w1", "a1"), deleting(pod("w2", "a1"), grace=30)])
    [(_, made)] = plan.create
    assert made["metadata"]["generateName"] == f"{web['metadata']['name']}-"


def test_the_least_useful_replica_goes_first() -> None:
    web = replica_set(deployment(1), 1, 1)
    pods = [pod("ready", "a1", ready=True), pod("unbound"), pod("starting", "a1", phase="Pending")]
    gone = [body["metadata"]["name"] for _, body in plan_replica_set(web, pods).delete]
    assert gone == ["unbound", "starting"]


def test_a_deployment_starts_with_one_replica_set_of_full_size() -> None:
    [(_, made)] = plan_deployment(deployment(3), []).create
    assert made["spec"]["replicas"] == 3
    letters = made["metadata"]["labels"]["pod-template-hash"]
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": letters}


def test_scaling_scales_the_replica_set() -> None:
    before = deployment(3)
    assert sizes(deployment(5), replica_set(before, 3, 3)) == [(True, 5)]
    assert sizes(deployment(1), replica_set(before, 3, 3)) == [(True, 1)]


def test_a_settled_deployment_writes_nothing() -> None:
    web = deployment(3)
    assert sizes(web, replica_set(web, 3, 3), replica_set(web, 0, 0, "old")) == []


@pytest.mark.parametrize(
    ("new", "old", "steps"),
    [
        pytest.param((1, 0), (4, 4), [(False, 3)], id="one more than wanted, so one of the old may go"),
        pytest.param((1, 1), (3, 3), [(True, 2), (False, 2)], id="the new one is there"),
        pytest.param((4, 3), (0, 0), [], id="all moved"),
        pytest.param((1, 0), (4, 2), [(False, 3)], id="a broken old one goes first"),
    ],
)
def test_a_roll_keeps_to_surge_and_unavailable(
    new: tuple[int, int], old: tuple[int, int], steps: list[tuple[bool, int]]
) -> None:
    """Four replicas with 25% each way: at most five, at least three available."""
    web = deployment(4)
    assert sizes(web, replica_set(web, *new), replica_set(web, *old, "old")) == steps


def test_recreate_empties_the_old_one_before_it_fills_the_new_one() -> None:
    web = deployment(2, strategy={"type": "Recreate"})
    fresh: Any = replica_set(web, 0, 0)
    assert sizes(web, fresh, replica_set(web, 2, 2, "old")) == [(False, 0)]
    going = replica_set(web, 0, 0, "old")
    going["status"]["replicas"] = 1
    assert sizes(web, fresh, going) == []
    assert sizes(web, fresh, replica_set(web, 0, 0, "old")) == [(True, 2)]
