"""Environment variables override the file, key by key, and are judged like it."""

import pytest

from ebbtide.config.names import HostPort
from ebbtide.config.scaler import Tier
from ebbtide.config.schema import leaves
from tests.ebbtide.config.conftest import Complaints, Read


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("EBBTIDE__NAMESPACE", "here", "namespace", "here"),
        ("EBBTIDE__NODE_REBALANCE__HOLD_DOWN", "5m", "node-rebalance.hold-down", 300.0),
        ("EBBTIDE__NODE_REBALANCE__HOLD_DOWN", "90", "node-rebalance.hold-down", 90.0),
        ("EBBTIDE__NODE_REBALANCE__RUN", "false", "node-rebalance.run", False),
        ("EBBTIDE__NODE_REBALANCE__RUN", "True", "node-rebalance.run", True),
        ("EBBTIDE__NODE_REBALANCE__MIN_OPEN_ZONES", " 2 ", "node-rebalance.min-open-zones", 2),
        ("EBBTIDE__NODE_REBALANCE__NODE_GROUPS", "a-*, b", "node-rebalance.node-groups", ("a-*", "b")),
        ("EBBTIDE__NODE_REBALANCE__NODE_GROUPS", '["a-*", "b"]', "node-rebalance.node-groups", ("a-*", "b")),
        ("EBBTIDE__NODE_REBALANCE__NODE_GROUPS", "['a-*', 'b',]", "node-rebalance.node-groups", ("a-*", "b")),
        ("EBBTIDE__NODE_REBALANCE__ZONAL_VOLUME_POLICY", "hold", "node-rebalance.zonal-volume-policy", "hold"),
        ("EBBTIDE__CERTS__EXTRA_SANS", "", "certs.extra-sans", ()),
        ("EBBTIDE__WORKER_SCALER__MAX_SIZE", "2GB", "worker-scaler.max-size", 2 << 30),
        ("EBBTIDE__WORKER_SCALER__MAX_SIZE", "4294967296", "worker-scaler.max-size", 1 << 32),
        ("EBBTIDE__WORKER_SCALER__WORKER_MAX_CORES", "3.5", "worker-scaler.worker-max-cores", 3.5),
        ("EBBTIDE__WORKER_SCALER__LISTEN", "[::]:1", "worker-scaler.listen", HostPort("::", 1)),
        (
            "EBBTIDE__WORKER_SCALER__SHARED_STS_CONFIG__REQUEST_CPU",
            "2",
            "worker-scaler.shared-sts-config.request-cpu",
            2,
        ),
        (
            "EBBTIDE__WORKER_SCALER__STS_CONFIGS",
            '[{"min-data-size-gb": 3, "request-cpu": 1, "limit-cpu": 2, "worker-num": 1}]',
            "worker-scaler.sts-configs",
            (Tier(min_data_size_gb=3, request_cpu=1, limit_cpu=2, worker_num=1),),
        ),
        ("EBBTIDE__SIGNALS__SQS__QUEUE_URL", "https://a/b", "signals.sqs.queue-url", "https://a/b"),
    ],
)
def test_a_variable_overrides_its_key(read: Read, variable: str, text: str, key: str, value: object) -> None:
    loaded = read('namespace = "file"', {variable: text})
    assert leaves()[key].value(loaded.settings) == value
    assert str(loaded.origins[key]) == variable


def test_every_key_has_a_variable_of_its_own() -> None:
    assert len({leaf.variable for leaf in leaves().values()}) == len(leaves())


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("EBBTIDE__NODE_REBALANCE__RUN", "yes", 'node-rebalance.run = "yes" must be true or false'),
        (
            "EBBTIDE__NODE_REBALANCE__MIN_OPEN_ZONES",
            "",
            'node-rebalance.min-open-zones = "" must be a whole number, at least 0',
        ),
        (
            "EBBTIDE__NODE_REBALANCE__MIN_OPEN_ZONES",
            "1\nb = 2",
            'node-rebalance.min-open-zones = "1\\nb = 2" must be a whole number, at least 0',
        ),
        (
            "EBBTIDE__WORKER_SCALER__STS_CONFIGS",
            "[{",
            'worker-scaler.sts-configs = "[{" must be a list of tables with the keys of a size tier',
        ),
        ("EBBTIDE__WORKER_SCALER__STS_CONFIGS", "a", 'worker-scaler.sts-configs[0] = "a" must be a table'),
    ],
)
def test_text_that_is_no_value_of_the_key_is_reported_with_the_variable(
    complaints: Complaints, variable: str, text: str, complaint: str
) -> None:
    assert complaints("", {variable: text}) == [f"{complaint} [{variable}]"]


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("EBBTIDE__NODE_REBALANCE__HOLDDOWN", "EBBTIDE__NODE_REBALANCE__HOLD_DOWN"),
        ("EBBTIDE__NODE_REBALANCE__hold_down", "EBBTIDE__NODE_REBALANCE__HOLD_DOWN"),
        ("EBBTIDE__NAMESPCE", "EBBTIDE__NAMESPACE"),
        ("EBBTIDE__WEBHOOK_LISTEN", "EBBTIDE__WEBHOOK__LISTEN"),
    ],
)
def test_a_variable_that_names_no_key_is_an_error_with_the_nearest(
    complaints: Complaints, variable: str, nearest: str
) -> None:
    assert complaints("", {variable: "1"}) == [
        f"{variable} is not a known variable; the nearest is {nearest} [environment]"
    ]


def test_other_variables_are_not_ours(read: Read) -> None:
    """Kubernetes itself sets such names for Services; the file's own variable has one underscore, too."""
    environ = {"EBBTIDE_CONFIG": "x", "EBBTIDE_WEBHOOK_SERVICE_HOST": "x", "EBBTIDE_": "x", "PATH": "x"}
    assert read("", environ) == read("")


def test_a_variable_mends_a_wrong_value_of_the_file(read: Read) -> None:
    loaded = read("[webhook]\ndrain = 'soon'", {"EBBTIDE__WEBHOOK__DRAIN": "3s"})
    assert loaded.settings.webhook.drain == 3.0
