"""The size of a pool's pod. Pure.

The settings have made sense of `shared-sts-config` already: see `ebbtide.config.sizes`.
"""

from ebbtide.config.scaler import PoolSpec
from reconciler.scaler.size import Size


def size_of(spec: PoolSpec) -> Size:
    """The pod as it is set."""
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


def disk_of(size: Size) -> int:
    """Bytes on the volumes of one pod together."""
    return size.workers * size.storage_gb << 30
