import pytest

from ebbtide.sim.actors.amounts import Amounts, allocatable, quantity, requested
from tests.ebbtide.sim.actors.things import node, pod


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1500m", 1.5),
        ("2Gi", 2 * 2**30),
        ("128974848", 128974848),
        ("1e3", 1000),
        ("0.5k", 500),
        ("1M", 10**6),
    ],
)
def test_quantities_read_as_kubernetes_reads_them(text: str, value: float) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "x", "1Gib", "1 Gi", "GiGi", "1/2"])
def test_nonsense_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity(text)


def test_a_pod_asks_for_its_containers_together() -> None:
    asked = pod("p")
    asked["spec"]["containers"].append({"name": "side", "resources": {"requests": {"cpu": "250m"}}})
    assert requested(asked) == Amounts(cpu=1250, memory=2**30, pods=1)


def test_a_large_init_container_counts_where_it_needs_more() -> None:
    asked = pod("p", initContainers=[{"name": "init", "resources": {"requests": {"cpu": "3", "memory": "1Mi"}}}])
    assert requested(asked) == Amounts(cpu=3000, memory=2**30, pods=1)


def test_a_limit_without_a_request_is_the_request() -> None:
    asked = pod("p")
    asked["spec"]["containers"] = [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]
    assert requested(asked) == Amounts(cpu=2000, pods=1)


def test_a_node_offers_what_is_allocatable() -> None:
    assert allocatable(node("a1")) == Amounts(cpu=4000, memory=16 * 2**30, pods=110)
