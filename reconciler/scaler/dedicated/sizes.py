"""From a task's data size to the size of its worker. Pure.

The built-in tiers are those of the workers' present operators; a tier of the settings takes the place of the built-in
one with the same smallest data size as a whole, so that nothing of two tiers is mixed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Final

from ebbtide.config.scaler import Tier
from reconciler.scaler.size import Size

_GIB: Final = 1 << 30
# GiB of memory for each core that a tier names no memory for.
_MEMORY_PER_CORE: Final = 4
# A worker sorts on disk and writes the result there: input, sorted runs and output at the same time.
_DISK_PER_DATA: Final = 3

_BUILT_IN: Final = (
    Tier(min_data_size_gb=0, request_cpu=1, limit_cpu=1, worker_num=1),
    Tier(min_data_size_gb=1, request_cpu=2, limit_cpu=2, worker_num=1),
    Tier(min_data_size_gb=10, request_cpu=3.5, limit_cpu=3.5, worker_num=1),
    Tier(min_data_size_gb=50, request_cpu=7, limit_cpu=7, worker_num=1),
    Tier(min_data_size_gb=100, request_cpu=14, limit_cpu=14, worker_num=4),
    Tier(min_data_size_gb=500, request_cpu=25, limit_cpu=48, worker_num=16, node_group="dedicated"),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The tiers in use, by data size, and what every worker is bounded by."""

    tiers: tuple[Tier, ...]
    max_cores: float
    min_storage_gb: int

    def of(self, data_size: int) -> Size:
        """The worker for that many bytes."""
        gigabytes = data_size // _GIB
        tier = [tier for tier in self.tiers if tier.min_data_size_gb <= gigabytes][-1]
        return _size(tier, gigabytes, self)


def tiers_of(own: Iterable[Tier]) -> tuple[Tier, ...]:
    """Built-in tiers and those of the settings together, the latter as `ebbtide.config.sizes` has left them."""
    found = {tier.min_data_size_gb: tier for tier in (*_BUILT_IN, *own)}
    return tuple(found[least] for least in sorted(found))


def _size(tier: Tier, gigabytes: int, rules: Sizes) -> Size:
    # The settings have left out a tier without these: see `ebbtide.config.sizes`.
    assert tier.request_cpu is not None
    assert tier.limit_cpu is not None
    assert tier.worker_num is not None
    request_cpu = min(tier.request_cpu, rules.max_cores)
    limit_cpu = min(tier.limit_cpu, rules.max_cores)
    request_memory, limit_memory = _memory(tier, request_cpu, limit_cpu)
    computed = max(rules.min_storage_gb, ceil(gigabytes * _DISK_PER_DATA / tier.worker_num))
    return Size(
        request_cpu=request_cpu,
        limit_cpu=limit_cpu,
        request_memory=request_memory,
        limit_memory=limit_memory,
        workers=tier.worker_num,
        storage_gb=tier.storage_size_gb or computed,
        node_group=tier.node_group,
        selector=(tier.node_selector_key, tier.node_selector_value) if tier.node_selector_key else None,
    )


def _memory(tier: Tier, request_cpu: float, limit_cpu: float) -> tuple[float, float]:
    """Request and limit in GiB. What is computed gives way to what is set, so that the request is never the larger."""
    request, limit = tier.request_memory, tier.limit_memory
    if request and limit:
        return request, limit
    if request:
        return request, max(request, limit_cpu * _MEMORY_PER_CORE)
    if limit:
        return min(limit, request_cpu * _MEMORY_PER_CORE), limit
    return request_cpu * _MEMORY_PER_CORE, limit_cpu * _MEMORY_PER_CORE
