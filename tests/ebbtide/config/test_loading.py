"""A file that cannot be used is refused with everything that is wrong with it, and with what is allowed."""

from pathlib import Path

import pytest

from ebbtide.config import ConfigurationError, load
from ebbtide.config.names import HostPort
from ebbtide.errors import UsageError
from tests.ebbtide.config.conftest import Complaints, Read

DURATION = 'must be a duration: a number of seconds, or a string such as "500ms", "90s", "5m", "1h30m"'


def test_all_problems_of_all_kinds_are_reported_at_once(complaints: Complaints) -> None:
    text = """
        hold-down = 3
        [node-rebalance]
        hold-dwon = 3
        hold-down = "5 parsecs"
        node-groups = ["a", 3]
        [worker-scaler]
        shared-min-replicas = 5
        shared-max-replicas = 3
        shared-max-tasks-per-pod = 0
        [[worker-scaler.sts-configs]]
        request-cpu = "x"
        [webhok]
    """
    environ = {"EBBTIDE__WEBHOOK__DRAIN": "soon", "EBBTIDE__WEBHOOK__DRIAN": "5s"}
    assert complaints(text, environ) == [
        "hold-down is not a known key; the nearest is node-rebalance.hold-down [FILE]",
        "node-rebalance.hold-dwon is not a known key; the nearest is node-rebalance.hold-down [FILE]",
        "webhok is not a known key; the nearest is webhook [FILE]",
        "EBBTIDE__WEBHOOK__DRIAN is not a known variable; the nearest is EBBTIDE__WEBHOOK__DRAIN [environment]",
        "node-rebalance.node-groups[1] = 3 must be a shell-style pattern [FILE]",
        f'node-rebalance.hold-down = "5 parsecs" {DURATION} [FILE]',
        "worker-scaler.shared-max-tasks-per-pod = 0 must be a whole number, at least 1 [FILE]",
        "worker-scaler.sts-configs[0].min-data-size-gb is missing: a whole number, at least 0 [FILE]",
        'worker-scaler.sts-configs[0].request-cpu = "x" must be a number [FILE]',
        f'webhook.drain = "soon" {DURATION} [EBBTIDE__WEBHOOK__DRAIN]',
        "worker-scaler.shared-min-replicas = 5 must be at most shared-max-replicas "
        "(worker-scaler.shared-max-replicas = 3) [FILE]",
    ]


def test_the_message_counts_and_lists_the_problems(read: Read) -> None:
    with pytest.raises(ConfigurationError, match=r"2 problems:\n  .*\n  .*"):
        read("a = 1\nb = 2")
    with pytest.raises(ConfigurationError, match=r"1 problem:\n  .*"):
        read("a = 1")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[node-rebalance]\nhold_down = 1", "node-rebalance.hold_down … node-rebalance.hold-down"),
        ("[node-rebalance]\nHold-Down = 1", "node-rebalance.Hold-Down … node-rebalance.hold-down"),
        ("[leader-election]\nlisten = 1", "leader-election.listen … observability.listen"),
        ("[signals]\nimsd = {}", "signals.imsd … signals.imds"),
        ("[signals.sqs]\nqueue = 1", "signals.sqs.queue … signals.sqs.queue-url"),
        (
            "[worker-scaler.shared-sts-config]\ncpu = 1",
            "worker-scaler.shared-sts-config.cpu … worker-scaler.shared-sts-config.limit-cpu",
        ),
        (
            "[[worker-scaler.sts-configs]]\nmin-data-size = 1",
            "worker-scaler.sts-configs[0].min-data-size … worker-scaler.sts-configs[0].min-data-size-gb",
        ),
        ("'name space' = 1", "'name space' … namespace"),
    ],
)
def test_an_unknown_key_is_told_the_nearest_known_one(complaints: Complaints, text: str, complaint: str) -> None:
    assert complaint.replace(" … ", " is not a known key; the nearest is ") + " [FILE]" in complaints(text)


def test_an_unknown_key_that_is_like_none_sends_nobody_to_another_table(complaints: Complaints) -> None:
    told = [
        each.partition(" is not a known key; the nearest is ") for each in complaints("[webhook]\nxyz = 1\n[qqq]\n")
    ]
    assert [key for key, _, _ in told] == ["webhook.xyz", "qqq"]
    assert told[0][2].startswith("webhook.")
    assert "." not in told[1][2].removesuffix(" [FILE]")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("webhook = 3", "webhook = 3 must be a table"),
        ("[[webhook]]", "webhook = [{}] must be a table"),
        ("[namespace]", "namespace = {} must be \"\" or a namespace: at most 63 of a-z, 0-9 and '-'"),
        ("namespace = 0", "namespace = 0 must be \"\" or a namespace: at most 63 of a-z, 0-9 and '-'"),
        ("[node-rebalance]\nrun = 1", "node-rebalance.run = 1 must be true or false"),
        ("[node-rebalance]\nrun = 'yes'", 'node-rebalance.run = "yes" must be true or false'),
        (
            "[node-rebalance]\nmin-open-zones = -1",
            "node-rebalance.min-open-zones = -1 must be a whole number, at least 0",
        ),
        (
            "[node-rebalance]\nmin-open-zones = 1.0",
            "node-rebalance.min-open-zones = 1.0 must be a whole number, at least 0",
        ),
        (
            "[node-rebalance]\nmin-open-zones = true",
            "node-rebalance.min-open-zones = true must be a whole number, at least 0",
        ),
        ("[node-rebalance]\nresync-period = 0", f"node-rebalance.resync-period = 0 {DURATION}, more than 0s"),
        ("[node-rebalance]\nhold-down = 2026-03-01", f'node-rebalance.hold-down = "2026-03-01" {DURATION}'),
        (
            "[node-rebalance]\nzonal-volume-policy = 'keep'",
            'node-rebalance.zonal-volume-policy = "keep" must be "evict" or "hold"',
        ),
        (
            "[node-rebalance]\nnode-groups = []",
            "node-rebalance.node-groups = [] must be a list of at least one shell-style pattern, "
            'such as ["*"] or ["prod-*"]',
        ),
        (
            "[node-rebalance]\nnode-groups = '*'",
            'node-rebalance.node-groups = "*" must be a list of at least one shell-style pattern, '
            'such as ["*"] or ["prod-*"]',
        ),
        (
            "[node-rebalance]\nzone-label = 'a b'",
            'node-rebalance.zone-label = "a b" must be a label or taint key such as "name" or "example.com/name" '
            "(name: at most 63 characters)",
        ),
        (
            "[worker-scaler]\nworker-max-cores = nan",
            "worker-scaler.worker-max-cores = NaN must be a number, more than 0",
        ),
        (
            "[worker-scaler]\nworker-port = 0",
            "worker-scaler.worker-port = 0 must be a whole number, at least 1, at most 65535",
        ),
        (
            "[worker-scaler]\nmax-size = '1tb'",
            'worker-scaler.max-size = "1tb" must be a size: a whole number of bytes, '
            'or a string such as "64KB", "2GB", "1TB"',
        ),
        ("[worker-scaler]\nsts-configs = [1]", "worker-scaler.sts-configs[0] = 1 must be a table"),
        (
            "[observability]\nlisten = ':8080'",
            'observability.listen = ":8080" must be host:port to listen on, '
            'such as "0.0.0.0:8080", "127.0.0.1:0" or "[::]:8080"',
        ),
        (
            "[leader-election]\nlease-duration = '15500ms'",
            f'leader-election.lease-duration = "15500ms" {DURATION}, more than 0s, without a fraction',
        ),
        ("[certs]\nextra-sans = ['a b']", 'certs.extra-sans[0] = "a b" must be a DNS name or an IP address'),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(complaints: Complaints, text: str, complaint: str) -> None:
    assert complaints(text) == [f"{complaint} [FILE]"]


def test_a_long_value_is_shortened(complaints: Complaints) -> None:
    [complaint] = complaints(f"namespace = '{'x' * 5000}'")
    assert len(complaint) < 250


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = 1\nb = = 3\n", "FILE, line 2, column 5: not valid TOML: Invalid value\n  b = = 3\n      ^"),
        (b"[webhook]\n[webhook]\n", "FILE, line 2, column 9: not valid TOML: "),
        (b"a = [1,", "FILE: not valid TOML, at its end: "),
        (b'a = "x\nb = 2', "FILE, line 1, column 7: not valid TOML: "),
        (b"[webhook]\ndrain = '\xff'", "FILE, line 2: not UTF-8 text (byte 0xff)"),
    ],
)
def test_text_that_is_not_toml_is_told_where(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "ebbtide.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load(path, {})
    assert str(caught.value).replace(str(path), "FILE").startswith(message)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.toml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(UsageError, match=f"{path}: cannot be read: {reason}"):
            load(path, {})
    with pytest.raises(UsageError, match="not a file's name"):
        load(Path("a\0b"), {})


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "ebbtide.toml"
    path.write_bytes(b"\xef\xbb\xbf[webhook]\r\ndrain = 1\r\n")
    assert load(path, {}).settings.webhook.drain == 1.0


def test_values_have_the_types_that_the_program_computes_with(read: Read) -> None:
    settings = read("""
        [node-rebalance]
        node-groups = ["a-*", "b"]
        hold-down = "3m"
        [worker-scaler]
        max-size = "3GB"
        listen = "[::1]:19500"
    """).settings
    assert settings.node_rebalance.node_groups == ("a-*", "b")
    assert settings.node_rebalance.hold_down == 180.0
    assert settings.worker_scaler.max_size == 3 * 2**30
    assert settings.worker_scaler.listen == HostPort("::1", 19500)


def test_every_key_says_where_its_value_came_from(read: Read, tmp_path: Path) -> None:
    text = "[webhook]\ndrain = 1\nkeep-alive = 100\n[signals.imds]\npoll-interval = 3"
    origins = read(text, {"EBBTIDE__WEBHOOK__KEEP_ALIVE": "120s"}).origins
    assert {key: str(origin) for key, origin in origins.items() if origin.source != "default"} == {
        "webhook.drain": str(tmp_path / "ebbtide.toml"),
        "webhook.keep-alive": "EBBTIDE__WEBHOOK__KEEP_ALIVE",
        "signals.imds.poll-interval": str(tmp_path / "ebbtide.toml"),
    }
