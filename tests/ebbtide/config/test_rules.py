"""What must hold between settings is an error when it does not; what is only unwise is a warning."""

import pytest

from tests.ebbtide.config.conftest import Complaints, Read


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            "[worker-scaler]\nshared-min-replicas = 5\nshared-max-replicas = 3",
            "worker-scaler.shared-min-replicas = 5 must be at most shared-max-replicas "
            "(worker-scaler.shared-max-replicas = 3)",
            id="WS-68 min > max",
        ),
        pytest.param(
            "[worker-scaler]\nshared-scale-up-tasks-per-pod = 0",
            "worker-scaler.shared-scale-up-tasks-per-pod = 0 must be a whole number, at least 1",
            id="WS-68 U = 0",
        ),
        pytest.param(
            "[worker-scaler]\nshared-max-tasks-per-pod = 0",
            "worker-scaler.shared-max-tasks-per-pod = 0 must be a whole number, at least 1",
            id="WS-68 C = 0",
        ),
        pytest.param(
            "[worker-scaler]\nshared-max-replicas = 0",
            "worker-scaler.shared-max-replicas = 0 must be a whole number, at least 1",
            id="WS-68 max = 0",
        ),
        pytest.param(
            "[leader-election]\nlease-duration = 10",
            'leader-election.lease-duration = "10s" must be more than renew-deadline '
            '(leader-election.renew-deadline = "10s")',
            id="lease not longer than the deadline",
        ),
        pytest.param(
            "[leader-election]\nrenew-deadline = 6\nretry-period = 5",
            'leader-election.renew-deadline = "6s" must be more than 1.2 times retry-period '
            '(leader-election.retry-period = "5s")',
            id="deadline within one stretched retry",
        ),
        pytest.param(
            "[certs]\nca-lifetime = '1h'\nleaf-lifetime = '2h'",
            'certs.leaf-lifetime = "2h" must be at most ca-lifetime (certs.ca-lifetime = "1h")',
            id="leaf outlives its CA",
        ),
        pytest.param(
            "[certs]\noverlap = '1440h'",
            'certs.overlap = "1440h" must be less than leaf-lifetime (certs.leaf-lifetime = "1440h")',
            id="rotation longer than a leaf lives",
        ),
        pytest.param(
            "[node-rebalance]\nprevent-ca-scale-up-taint-key = 'a'\nrebalance-signal-taint-key = 'a'",
            'node-rebalance.prevent-ca-scale-up-taint-key = "a" must differ from rebalance-signal-taint-key '
            '(node-rebalance.rebalance-signal-taint-key = "a")',
            id="one key for two taints",
        ),
        pytest.param(
            "[node-rebalance]\nprevent-ca-scale-up-taint-key = 'startup-taint.cluster-autoscaler.kubernetes.io/x'",
            'node-rebalance.prevent-ca-scale-up-taint-key = "startup-taint.cluster-autoscaler.kubernetes.io/x" '
            "must not begin with ignore-taint.cluster-autoscaler.kubernetes.io/, "
            "startup-taint.cluster-autoscaler.kubernetes.io/, status-taint.cluster-autoscaler.kubernetes.io/: "
            "the Cluster Autoscaler would not see it",
            id="a taint that the autoscaler leaves out",
        ),
        pytest.param(
            "[node-rebalance]\nnode-group-label = 'a'\nzone-label = 'a'",
            'node-rebalance.node-group-label = "a" must differ from zone-label (node-rebalance.zone-label = "a")',
            id="one label for group and zone",
        ),
        pytest.param(
            "[worker-scaler]\nrun = true\nlisten = '127.0.0.1:8080'",
            'worker-scaler.listen = "127.0.0.1:8080" must differ from observability.listen: '
            'one process listens on both (observability.listen = "0.0.0.0:8080")',
            id="two servers on one port",
        ),
        pytest.param(
            "[webhook]\nhealth-listen = '[::]:8443'",
            'webhook.health-listen = "[::]:8443" must differ from listen: one process listens on both '
            '(webhook.listen = "0.0.0.0:8443")',
            id="admission and probes on one port",
        ),
        pytest.param(
            "[worker-scaler]\nshared-pool-name = 'tikv-api'",
            'worker-scaler.shared-pool-name = "tikv-api" must differ from template-sts-name: the pool would take the '
            'template\'s place (worker-scaler.template-sts-name = "tikv-api")',
            id="pool in the template's place",
        ),
        pytest.param(
            "[worker-scaler]\nsts-configs = [{min-data-size-gb = 1}, {min-data-size-gb = 1}]",
            'worker-scaler.sts-configs = [{"min-data-size-gb": 1}, {"min-data-size-gb": 1}] '
            "must have each min-data-size-gb only once",
            id="one tier twice",
        ),
        pytest.param(
            "[worker-scaler.shared-sts-config]\nnode-group = 'a'\nnode-selector-key = "
            "'serverless.tidbcloud.com/node'\nnode-selector-value = 'b'",
            'worker-scaler.shared-sts-config.node-selector-value = "b" must be that of node-group: '
            "node-selector-key is the label of node groups, and a pod can be of one only "
            '(worker-scaler.shared-sts-config.node-group = "a", '
            'node-rebalance.node-group-label = "serverless.tidbcloud.com/node")',
            id="a pool of two node groups",
        ),
        pytest.param(
            "[node-rebalance]\nnode-group-label = 'l'\n[worker-scaler]\nsts-configs = [{min-data-size-gb = 1, "
            "request-cpu = 1, limit-cpu = 1, worker-num = 1, node-group = 'a', node-selector-key = 'l'}]",
            'worker-scaler.sts-configs = [{"min-data-size-gb": 1, "request-cpu": 1.0, "limit-cpu": 1.0, '
            '"worker-num": 1,… must name one node group in each entry: node-selector-key is the label of node groups, '
            'beside another node-group (node-rebalance.node-group-label = "l")',
            id="a worker of two node groups",
        ),
        pytest.param(
            "[worker-scaler]\nstuck-task-expire-seconds = 30\nrefresh-interval = 30",
            "worker-scaler.stuck-task-expire-seconds = 30 must be 0 or more than refresh-interval: no task can be seen "
            'to move within less, and every one would be stuck (worker-scaler.refresh-interval = "30s")',
            id="stuck before it is looked at again",
        ),
        pytest.param(
            "[signals.sqs]\nqueue-url = 'https://sqs.eu-west-1.amazonaws.com/1/q'\nregion = 'eu-central-1'",
            'signals.sqs.region = "eu-central-1" must be the region of queue-url: AWS accepts no request that is '
            'signed for another one (signals.sqs.queue-url = "https://sqs.eu-west-1.amazonaws.com/1/q")',
            id="a queue in two regions",
        ),
        pytest.param(
            "[certs]\nca-lifetime = '3h'\nleaf-lifetime = '2h'\noverlap = '1h'",
            'certs.overlap = "1h" must be less than a third of ca-lifetime: a CA is replaced after two thirds, and '
            'would end before its leaves are (certs.ca-lifetime = "3h")',
            id="rotation longer than what is left of a CA",
        ),
        pytest.param(
            "[webhook]\nlisten = '127.0.0.1:8443'\nhealth-listen = 'localhost:8443'",
            'webhook.health-listen = "localhost:8443" must differ from listen: one process listens on both '
            '(webhook.listen = "127.0.0.1:8443")',
            id="one port by two names",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(complaints: Complaints, text: str, complaint: str) -> None:
    assert complaints(text) == [f"{complaint} [FILE]"]


def test_the_origin_of_a_contradiction_is_what_was_set(complaints: Complaints) -> None:
    [complaint] = complaints("", {"EBBTIDE__LEADER_ELECTION__RENEW_DEADLINE": "20s"})
    assert complaint.startswith('leader-election.lease-duration = "15s" must be more than renew-deadline')
    assert complaint.endswith("[EBBTIDE__LEADER_ELECTION__RENEW_DEADLINE]")


def test_a_refused_value_is_not_compared_with_others(complaints: Complaints) -> None:
    [complaint] = complaints("[leader-election]\nlease-duration = 'long'\nrenew-deadline = 60")
    assert complaint.startswith('leader-election.lease-duration = "long" must be a duration')


@pytest.mark.parametrize(
    "text",
    [
        "[worker-scaler]\nlisten = '0.0.0.0:8080'",
        "[worker-scaler]\nrun = true\nlisten = '127.0.0.1:8080'\n[observability]\nlisten = '127.0.0.2:8080'",
        "[webhook]\nlisten = '127.0.0.1:0'\nhealth-listen = '127.0.0.1:0'",
        "[worker-scaler]\nshared-min-replicas = 64",
        "[certs]\nleaf-lifetime = '17520h'",
        "[certs]\nca-lifetime = '3h'\nleaf-lifetime = '2h'\noverlap = '3599s'",
        "[certs]\nmode = 'files'\nca-lifetime = '3h'\nleaf-lifetime = '2h'\noverlap = '1h'",
        "[worker-scaler]\nstuck-task-expire-seconds = 11",
        "[worker-scaler]\nstuck-task-expire-seconds = 0\nrefresh-interval = 60",
        "[worker-scaler.shared-sts-config]\nnode-group = 'a'\nnode-selector-key = 'disk'\nnode-selector-value = 'b'",
        "[worker-scaler.shared-sts-config]\nnode-group = 'a'\nnode-selector-key = 'serverless.tidbcloud.com/node'\n"
        "node-selector-value = 'a'",
        "[worker-scaler.shared-sts-config]\nnode-selector-key = 'serverless.tidbcloud.com/node'\n"
        "node-selector-value = 'a'",
        "[signals.sqs]\nqueue-url = 'https://sqs.eu-west-1.amazonaws.com/1/q'\nregion = 'eu-west-1'",
        "[signals.sqs]\nqueue-url = 'https://queue.amazonaws.com/1/q'\nregion = 'us-east-1'",
        "[signals.sqs]\nqueue-url = 'https://sqs.amazonaws.com/1/q'\nregion = 'us-east-1'",
        "[signals.sqs]\nqueue-url = 'https://sqs.proxy.example.com/1/q'\nregion = 'eu-west-1'",
        "[webhook]\nlisten = '127.0.0.1:8443'\nhealth-listen = '127.0.0.2:8443'",
    ],
)
def test_settings_on_the_edge_are_fine(read: Read, text: str) -> None:
    assert read(text).warnings == ()


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        pytest.param(
            "[worker-scaler]\nshared-scale-up-tasks-per-pod = 32",
            "worker-scaler.shared-scale-up-tasks-per-pod = 32 should be at most shared-max-tasks-per-pod",
            id="WS-68 U > C",
        ),
        (
            "[worker-scaler]\nspawn-data-size = '1TB'",
            'worker-scaler.spawn-data-size = "1TB" should be less than max-size',
        ),
        ("[webhook]\nkeep-alive = 90", 'webhook.keep-alive = "90s" should be more than 90s'),
    ],
)
def test_unwise_settings_are_used_with_a_warning(read: Read, text: str, warning: str) -> None:
    [said] = read(text).warnings
    assert str(said).startswith(warning)
