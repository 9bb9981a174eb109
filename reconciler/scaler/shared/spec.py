"""The size of a pool's pod, from `shared-sts-config` or, where that makes no sense, built in. Pure."""

from collections.abc import Iterable
from typing import Final

from ebbtide.config.scaler import PoolSpec
from reconciler.scaler.size import Size

BUILT_IN: Final = PoolSpec()


def size_of(spec: PoolSpec) -> tuple[Size, str]:
    """The size, and why it is not that of the settings ("" when it is)."""
    wrong = tuple(_wrong(spec))
    if wrong:
        words = f"shared-sts-config is not used, but the built-in size of a pod: {', '.join(wrong)}"
        return _size(BUILT_IN), words
    return _size(spec), ""


def disk_of(size: Size) -> int:
    """Bytes on the volumes of one pod together."""
    return size.workers * size.storage_gb << 30


def _size(spec: PoolSpec) -> Size:
    return Size(
        request_cpu=spec.request_cpu,
        limit_cpu=spec.limit_cpu,
        request_memory=spec.request_memory,
        limit_memory=spec.limit_memory,
        workers=spec.worker_num,
        storage_gb=spec.storage_size_gb,
        node_group=spec.node_group,
        selector=(spec.node_selector_key, spec.node_selector_value) if spec.node_selector_key else None,
    )


def _wrong(spec: PoolSpec) -> Iterable[str]:
    amounts = {
        "request-cpu": spec.request_cpu,
        "limit-cpu": spec.limit_cpu,
        "worker-num": spec.worker_num,
        "storage-size-gb": spec.storage_size_gb,
        "request-memory": spec.request_memory,
        "limit-memory": spec.limit_memory,
    }
    yield from (f"{key} is {amount:g}" for key, amount in amounts.items() if amount <= 0)
    if spec.request_cpu > spec.limit_cpu:
        yield f"request-cpu {spec.request_cpu:g} is above limit-cpu {spec.limit_cpu:g}"
    if spec.request_memory > spec.limit_memory:
        yield f"request-memory {spec.request_memory:g} is above limit-memory {spec.limit_memory:g}"
