"""From a task's data size to the size of its worker. Pure.

The built-in tiers are those of the workers' present operators; a tier of the settings takes the place of the built-in
one with the same smallest data size as a whole, so that nothing of two tiers is mixed.
"""

from collections.abc import Iterable, Sequence
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


def tiers_of(own: Sequence[Tier]) -> tuple[tuple[Tier, ...], tuple[str, ...]]:
    """Built-in tiers and those of the settings together, and a warning for each of those that is left out.

    Of two with the same data size the later one counts.
    """
    found = {tier.min_data_size_gb: tier for tier in _BUILT_IN}
    warnings = []
    for tier in own:
        wrong = tuple(_wrong(tier))
        if wrong:
            warnings.append(
                f"sts-configs: the tier from {tier.min_data_size_gb} GiB on is left out: {', '.join(wrong)}"
            )
        else:
            found[tier.min_data_size_gb] = tier
    return tuple(found[least] for least in sorted(found)), tuple(warnings)


def _wrong(tier: Tier) -> Iterable[str]:
    for key in ("request_cpu", "limit_cpu", "worker_num"):
        if not getattr(tier, key):
            yield f"{_key(key)} is missing or zero"
    for key in ("request_cpu", "limit_cpu", "worker_num", "request_memory", "limit_memory", "storage_size_gb"):
        if (getattr(tier, key) or 0) < 0:
            yield f"{_key(key)} is negative"
    if _exceeds(tier.request_cpu, tier.limit_cpu):
        yield "request-cpu is above limit-cpu"
    if _exceeds(tier.request_memory, tier.limit_memory):
        yield "request-memory is above limit-memory"
    if bool(tier.node_selector_key) != bool(tier.node_selector_value):
        yield "node-selector-key and node-selector-value go together"


def _key(attribute: str) -> str:
    return attribute.replace("_", "-")


def _exceeds(request: float | None, limit: float | None) -> bool:
    return bool(request and limit and request > limit)


def _size(tier: Tier, gigabytes: int, rules: Sizes) -> Size:
    request_cpu = min(tier.request_cpu or 0, rules.max_cores)
    limit_cpu = min(tier.limit_cpu or 0, rules.max_cores)
    request_memory, limit_memory = _memory(tier, request_cpu, limit_cpu)
    workers = tier.worker_num or 1
    return Size(
        request_cpu=request_cpu,
        limit_cpu=limit_cpu,
        request_memory=request_memory,
        limit_memory=limit_memory,
        workers=workers,
        storage_gb=tier.storage_size_gb or max(rules.min_storage_gb, ceil(gigabytes * _DISK_PER_DATA / workers)),
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
