import pytest

from ebbtide.sim.actors.rooms import view
from ebbtide.sim.actors.shrinkage import is_leaving, needed_for
from ebbtide.sim.stored import Object
from ebbtide.vocabulary import TO_BE_DELETED_TAINT_KEY
from tests.ebbtide.sim.actors.things import deleting, node, owner, pod, taint

DISABLED = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
UNSAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        pytest.param([], "", id="empty"),
        pytest.param([pod("p", "a1", owner=owner())], "", id="its pod fits elsewhere"),
        pytest.param([pod("p", "a1", cpu="2", owner=owner())], "it is in use", id="half used"),
        pytest.param([pod("p", "a1")], "pod p must not be moved", id="a bare pod"),
        pytest.param(
            [pod("p", "a1", owner=owner(), annotations=UNSAFE)], "pod p must not be moved", id="a pod that says no"
        ),
        pytest.param([pod("p", "a1", cpu="3", owner=owner("DaemonSet"))], "", id="daemon pods go with the node"),
        pytest.param([deleting(pod("p", "a1"))], "", id="a pod that is going anyway"),
        pytest.param(
            [pod("p", "a1", owner=owner()), pod("q", "b1", cpu="4")], "pod p has no place elsewhere", id="others full"
        ),
    ],
)
def test_a_node_is_needed_or_not(pods: list[Object], why: str) -> None:
    around = view([node("a1"), node("b1")], pods)
    assert needed_for(around.rooms[0], around) == why


def test_an_operator_can_keep_a_node() -> None:
    kept = node("a1")
    kept["metadata"]["annotations"] = DISABLED
    around = view([kept], [])
    assert needed_for(around.rooms[0], around) == "scale-down is disabled on it"


def test_the_mark_says_that_a_node_leaves() -> None:
    assert is_leaving(node("a1", taint(TO_BE_DELETED_TAINT_KEY, "1772366340")))
    assert not is_leaving(node("a1"))
