"""Data sizes and the workers that they get."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.config.scaler import Tier, WorkerScaler
from reconciler.scaler.dedicated.sizes import Sizes, tiers_of
from reconciler.scaler.size import Size, cores, memory

GIB = 1 << 30
BUILT_IN = tiers_of(())
FOUR = Sizes(BUILT_IN, max_cores=4, min_storage_gb=20)
MANY = Sizes(BUILT_IN, max_cores=64, min_storage_gb=20)


def shown(size: Size) -> tuple[str, str, str, str, int, int, str]:
    return (
        cores(size.request_cpu),
        cores(size.limit_cpu),
        memory(size.request_memory),
        memory(size.limit_memory),
        size.workers,
        size.storage_gb,
        size.node_group,
    )


@pytest.mark.parametrize(
    ("gb", "cpu", "amount", "workers", "storage", "group"),
    [
        (0, "1", "4Gi", 1, 20, ""),
        (2, "2", "8Gi", 1, 20, ""),
        (7, "2", "8Gi", 1, 21, ""),
        (10, "3.5", "14Gi", 1, 30, ""),
        (49, "3.5", "14Gi", 1, 147, ""),
        (50, "4", "16Gi", 1, 150, ""),
        (100, "4", "16Gi", 4, 75, ""),
        (103, "4", "16Gi", 4, 78, ""),
        (499, "4", "16Gi", 4, 375, ""),
        (500, "4", "16Gi", 16, 94, "dedicated"),
        (1024, "4", "16Gi", 16, 192, "dedicated"),
    ],
)
def test_ws_19_table(gb: int, cpu: str, amount: str, workers: int, storage: int, group: str) -> None:
    assert shown(FOUR.of(gb * GIB)) == (cpu, cpu, amount, amount, workers, storage, group)


@pytest.mark.parametrize(
    ("data", "gb"), [(0, 0), (GIB - 1, 0), (GIB, 1), (2 * GIB + 1, 2), (10 * GIB - 1, 9), (10 * GIB, 10)]
)
def test_whole_gib_decide(data: int, gb: int) -> None:
    assert FOUR.of(data) == FOUR.of(gb * GIB)


def test_ws_19_more_cores() -> None:
    assert shown(MANY.of(50 * GIB))[:4] == ("7", "7", "28Gi", "28Gi")
    assert shown(MANY.of(500 * GIB))[:4] == ("25", "48", "100Gi", "192Gi")


def own(**keys: float | str) -> Tier:
    return Tier.model_validate({key.replace("_", "-"): value for key, value in keys.items()})


def test_ws_20_an_own_tier_takes_the_place_of_a_built_in_one_as_a_whole() -> None:
    tiers = tiers_of([own(min_data_size_gb=500, request_cpu=2, limit_cpu=3, worker_num=2)])
    assert len(tiers) == len(BUILT_IN)
    sizes = Sizes(tiers, max_cores=4, min_storage_gb=20)
    assert shown(sizes.of(500 * GIB)) == ("2", "3", "8Gi", "12Gi", 2, 750, "")


def test_ws_20_an_own_tier_stands_between_built_in_ones() -> None:
    tiers = tiers_of([own(min_data_size_gb=20, request_cpu=2, limit_cpu=3, worker_num=2)])
    sizes = Sizes(tiers, max_cores=4, min_storage_gb=20)
    assert [shown(sizes.of(gb * GIB))[0] for gb in (19, 20, 49, 50)] == ["3.5", "2", "2", "4"]


@pytest.mark.parametrize(
    ("keys", "amounts"),
    [
        ({}, ("4Gi", "8Gi")),
        ({"request_memory": 2}, ("2Gi", "8Gi")),
        ({"request_memory": 12}, ("12Gi", "12Gi")),
        ({"limit_memory": 3}, ("3Gi", "3Gi")),
        ({"request_memory": 1, "limit_memory": 2.5}, ("1Gi", "2560Mi")),
    ],
)
def test_memory_that_is_set_counts_and_what_is_computed_gives_way(
    keys: dict[str, float], amounts: tuple[str, str]
) -> None:
    tiers = tiers_of([own(min_data_size_gb=3, request_cpu=1, limit_cpu=2, worker_num=1, **keys)])
    assert shown(Sizes(tiers, 4, 20).of(3 * GIB))[2:4] == amounts


@pytest.mark.parametrize("value", ["nvme", ""])
def test_selector_storage_and_group_of_a_tier_are_taken(value: str) -> None:
    tiers = tiers_of(
        [
            own(
                min_data_size_gb=3,
                request_cpu=1,
                limit_cpu=1,
                worker_num=1,
                storage_size_gb=5,
                node_group="g",
                node_selector_key="disk",
                node_selector_value=value,
            )
        ]
    )
    size = Sizes(tiers, 4, 20).of(3 * GIB)
    assert (size.storage_gb, size.node_group, size.selector) == (5, "g", ("disk", value))


@given(st.integers(0, WorkerScaler().max_size), st.floats(0.1, 100))
def test_every_size_can_be_scheduled_and_holds_the_data(data: int, most: float) -> None:
    size = Sizes(BUILT_IN, most, 20).of(data)
    assert 0 < size.request_cpu <= size.limit_cpu <= most
    assert 0 < size.request_memory <= size.limit_memory
    assert size.storage_gb * size.workers >= 3 * (data // GIB)
    assert size.storage_gb >= 20
