"""Sizes of worker pods that make no sense: they are replaced or dropped with a warning, not refused.

The worker scaler must go on placing tasks with a wrong pool spec, so its own configuration always fell back to the
built-in values here; everywhere else a wrong value is an error. The scaler relies on it: whatever sizes it is handed
make sense.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ebbtide.config.problems import DEFAULT, Origin, Problem
from ebbtide.config.scaler import PoolSpec, Tier
from ebbtide.config.settings import Settings

_POOL = "worker-scaler.shared-sts-config"
_TIERS = "worker-scaler.sts-configs"


@dataclass(frozen=True)
class Fitted:
    """Settings whose worker sizes all make sense, where they come from, and a warning for each that did not."""

    settings: Settings
    origins: Mapping[str, Origin]
    warnings: tuple[Problem, ...]


def fit(settings: Settings, origins: Mapping[str, Origin]) -> Fitted:
    """Replaces a senseless pool spec by the built-in one, and leaves out senseless tiers."""
    scaler = settings.worker_scaler
    faults = {
        index: fault for index, tier in enumerate(scaler.sts_configs) if (fault := _missing(tier) or _fault(tier))
    }
    warnings = [
        Problem(f"{_TIERS}[{index}]", f" is left out: {fault}", origins[_TIERS]) for index, fault in faults.items()
    ]
    changes: dict[str, object] = {
        "sts_configs": tuple(tier for index, tier in enumerate(scaler.sts_configs) if index not in faults)
    }
    if fault := _fault(scaler.shared_sts_config):
        pool = {key: origin for key, origin in origins.items() if key.startswith(f"{_POOL}.")}
        origin = next(origin for origin in pool.values() if origin != DEFAULT)
        warnings.append(Problem(_POOL, f" is not used, the built-in values are: {fault}", origin))
        changes["shared_sts_config"] = PoolSpec()
        origins = {**origins, **dict.fromkeys(pool, DEFAULT)}
    fitted = settings.model_copy(update={"worker_scaler": scaler.model_copy(update=changes)})
    return Fitted(fitted, origins, tuple(warnings))


def _missing(tier: Tier) -> str:
    needed = {"request-cpu": tier.request_cpu, "limit-cpu": tier.limit_cpu, "worker-num": tier.worker_num}
    absent = [key for key, value in needed.items() if value is None]
    return f"{', '.join(absent)} not set" if absent else ""


def _fault(spec: PoolSpec | Tier) -> str:
    amounts = {
        "request-cpu": spec.request_cpu,
        "limit-cpu": spec.limit_cpu,
        "worker-num": spec.worker_num,
        "storage-size-gb": spec.storage_size_gb,
        "request-memory": spec.request_memory,
        "limit-memory": spec.limit_memory,
    }
    for key, amount in amounts.items():
        if amount is not None and amount <= 0:
            return f"{key} = {amount:g} must be more than 0"
    for resource in ("cpu", "memory"):
        request, limit = amounts[f"request-{resource}"], amounts[f"limit-{resource}"]
        if request is not None and limit is not None and request > limit:
            return f"request-{resource} = {request:g} must be at most limit-{resource} = {limit:g}"
    if spec.node_selector_value and not spec.node_selector_key:
        return "node-selector-value needs node-selector-key"
    return ""
