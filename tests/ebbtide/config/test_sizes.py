"""Sizes of workers that make no sense never stop the program: built-in ones are used, or the tier is left out."""

import pytest

from ebbtide.config.scaler import PoolSpec
from tests.ebbtide.config.conftest import Read

POOL = "[worker-scaler.shared-sts-config]\n"
BUILT_IN = PoolSpec(request_cpu=4, limit_cpu=4, worker_num=1, storage_size_gb=64, request_memory=15, limit_memory=15)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("request-cpu = 0", "request-cpu = 0 must be more than 0"),
        ("limit-cpu = 0", "limit-cpu = 0 must be more than 0"),
        ("worker-num = 0", "worker-num = 0 must be more than 0"),
        ("storage-size-gb = -1", "storage-size-gb = -1 must be more than 0"),
        ("request-memory = -0.5", "request-memory = -0.5 must be more than 0"),
        ("request-cpu = 8\nlimit-cpu = 4", "request-cpu = 8 must be at most limit-cpu = 4"),
        ("request-memory = 16", "request-memory = 16 must be at most limit-memory = 15"),
        ("limit-memory = 8", "request-memory = 15 must be at most limit-memory = 8"),
        ("node-selector-value = 'a'", "node-selector-value needs node-selector-key"),
        ("request-cpu = 0\nnode-group = 'g'", "request-cpu = 0 must be more than 0"),
    ],
)
def test_a_senseless_pool_spec_is_the_built_in_one_with_a_warning(read: Read, text: str, fault: str) -> None:
    """WS-78."""
    loaded = read(POOL + text)
    assert loaded.settings.worker_scaler.shared_sts_config == BUILT_IN
    [warning] = loaded.warnings
    assert f"worker-scaler.shared-sts-config is not used, the built-in values are: {fault} [" in str(warning)
    assert {str(origin) for origin in loaded.origins.values()} == {"default"}


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("", BUILT_IN),
        ("request-memory = 8", BUILT_IN.model_copy(update={"request_memory": 8})),
        ("request-cpu = 3.5\nlimit-cpu = 7", BUILT_IN.model_copy(update={"request_cpu": 3.5, "limit_cpu": 7})),
        (
            "node-selector-key = 'a/b'\nnode-selector-value = 'c'",
            BUILT_IN.model_copy(update={"node_selector_key": "a/b", "node_selector_value": "c"}),
        ),
        ("node-selector-key = 'a'", BUILT_IN.model_copy(update={"node_selector_key": "a"})),
    ],
)
def test_a_missing_key_of_the_pool_spec_has_its_built_in_value(read: Read, text: str, spec: PoolSpec) -> None:
    """WS-78."""
    loaded = read(POOL + text)
    assert (loaded.settings.worker_scaler.shared_sts_config, loaded.warnings) == (spec, ())


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("worker-num = 0, request-cpu = 1, limit-cpu = 1", "worker-num = 0 must be more than 0"),
        ("worker-num = 1, limit-cpu = 1", "request-cpu not set"),
        ("node-group = 'g'", "request-cpu, limit-cpu, worker-num not set"),
        ("worker-num = 1, request-cpu = 2, limit-cpu = 1", "request-cpu = 2 must be at most limit-cpu = 1"),
        ("worker-num = 1, request-cpu = 1", "limit-cpu not set"),
        ("request-cpu = 1, limit-cpu = 1", "worker-num not set"),
        ("worker-num = -1, request-cpu = 1, limit-cpu = 1", "worker-num = -1 must be more than 0"),
        ("worker-num = 1, request-cpu = 1, limit-cpu = 1, limit-memory = -1", "limit-memory = -1 must be more than 0"),
        ("worker-num = 1, request-cpu = 1, limit-cpu = 1, storage-size-gb = -1", "storage-size-gb = -1 must be more"),
        (
            "worker-num = 1, request-cpu = 1, limit-cpu = 1, request-memory = 2, limit-memory = 1",
            "request-memory = 2 must be at most limit-memory = 1",
        ),
        (
            "worker-num = 1, request-cpu = 1, limit-cpu = 1, node-selector-value = 'a'",
            "node-selector-value needs node-selector-key",
        ),
    ],
)
def test_a_senseless_tier_is_left_out_with_a_warning(read: Read, row: str, fault: str) -> None:
    """WS-20."""
    good = "{min-data-size-gb = 10, request-cpu = 2, limit-cpu = 3, worker-num = 2}"
    loaded = read(f"[worker-scaler]\nsts-configs = [{good}, {{min-data-size-gb = 20, {row}}}]")
    assert [tier.min_data_size_gb for tier in loaded.settings.worker_scaler.sts_configs] == [10]
    [warning] = loaded.warnings
    assert f"worker-scaler.sts-configs[1] is left out: {fault}" in str(warning)
