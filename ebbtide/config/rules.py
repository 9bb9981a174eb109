"""What must hold between settings, and what is better not done.

Each rule names its keys, the first being the one that is reported, and is not judged when one of them is already
reported for its own sake.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ebbtide.config.names import ANY_HOST, HostPort
from ebbtide.config.problems import DEFAULT, Origin, Problem, shown
from ebbtide.config.scaler import PoolSpec, Tier
from ebbtide.config.schema import leaves
from ebbtide.config.settings import Settings

# Cluster Autoscaler leaves taints with these prefixes out of its templates (utils/taints/taints.go): under such a
# key the block would be invisible to it.
IGNORED_TAINT_PREFIXES: Final = tuple(
    f"{kind}-taint.cluster-autoscaler.kubernetes.io/" for kind in ("ignore", "startup", "status")
)
# client-go stretches each pause between attempts by up to this factor (leaderelection.JitterFactor).
RETRY_JITTER: Final = 1.2
# Go's http.Transport in the API server closes idle connections after this many seconds.
API_SERVER_IDLE: Final = 90.0
_THIS_MACHINE: Final = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True)
class Rule:
    """`holds` is asked; `wants` completes "must" (or, for a warning, "should")."""

    keys: tuple[str, ...]
    wants: str
    holds: Callable[[Settings], bool]

    def complaint(self, settings: Settings, origins: Mapping[str, Origin], verb: str) -> Problem:
        first, *others = (leaves()[key] for key in self.keys)
        beside = ", ".join(f"{leaf.key} = {shown(leaf.plain(leaf.value(settings)))}" for leaf in others)
        text = f" = {shown(first.plain(first.value(settings)))} {verb} {self.wants}"
        origin = next((origins[key] for key in self.keys if origins[key] != DEFAULT), DEFAULT)
        return Problem(first.key, f"{text} ({beside})" if beside else text, origin)


def _apart(one: HostPort, other: HostPort) -> bool:
    anywhere = {ANY_HOST, "::"}
    overlap = (
        one.host == other.host
        or {one.host, other.host} <= _THIS_MACHINE
        or not anywhere.isdisjoint((one.host, other.host))
    )
    return one.port != other.port or one.port == 0 or not overlap


def _distinct_tiers(settings: Settings) -> bool:
    sizes = Counter(tier.min_data_size_gb for tier in settings.worker_scaler.sts_configs)
    return all(count == 1 for count in sizes.values())


def _pins_once(spec: PoolSpec | Tier, settings: Settings) -> bool:
    """Both name the node group where the selector is by the label of node groups."""
    by_group = spec.node_selector_key == settings.node_rebalance.node_group_label
    return not (by_group and spec.node_group) or spec.node_selector_value == spec.node_group


def _one_region(settings: Settings) -> bool:
    sqs = settings.signals.sqs
    return not (sqs.region and sqs.named_region and sqs.is_at_aws) or sqs.region == sqs.named_region


RULES: Final = (
    Rule(
        ("node-rebalance.prevent-ca-scale-up-taint-key", "node-rebalance.rebalance-signal-taint-key"),
        "differ from rebalance-signal-taint-key",
        lambda s: s.node_rebalance.prevent_ca_scale_up_taint_key != s.node_rebalance.rebalance_signal_taint_key,
    ),
    Rule(
        ("node-rebalance.prevent-ca-scale-up-taint-key",),
        f"not begin with {', '.join(IGNORED_TAINT_PREFIXES)}: the Cluster Autoscaler would not see it",
        lambda s: not s.node_rebalance.prevent_ca_scale_up_taint_key.startswith(IGNORED_TAINT_PREFIXES),
    ),
    Rule(
        ("node-rebalance.node-group-label", "node-rebalance.zone-label"),
        "differ from zone-label",
        lambda s: s.node_rebalance.node_group_label != s.node_rebalance.zone_label,
    ),
    Rule(
        ("worker-scaler.shared-min-replicas", "worker-scaler.shared-max-replicas"),
        "be at most shared-max-replicas",
        lambda s: s.worker_scaler.shared_min_replicas <= s.worker_scaler.shared_max_replicas,
    ),
    Rule(
        ("worker-scaler.shared-pool-name", "worker-scaler.template-sts-name"),
        "differ from template-sts-name: the pool would take the template's place",
        lambda s: s.worker_scaler.shared_pool_name != s.worker_scaler.template_sts_name,
    ),
    Rule(
        ("worker-scaler.sts-configs",),
        "have each min-data-size-gb only once",
        _distinct_tiers,
    ),
    Rule(
        (
            "worker-scaler.shared-sts-config.node-selector-value",
            "worker-scaler.shared-sts-config.node-group",
            "node-rebalance.node-group-label",
        ),
        "be that of node-group: node-selector-key is the label of node groups, and a pod can be of one only",
        lambda s: _pins_once(s.worker_scaler.shared_sts_config, s),
    ),
    Rule(
        ("worker-scaler.sts-configs", "node-rebalance.node-group-label"),
        "name one node group in each entry: node-selector-key is the label of node groups, beside another node-group",
        lambda s: all(_pins_once(tier, s) for tier in s.worker_scaler.sts_configs),
    ),
    Rule(
        ("worker-scaler.stuck-task-expire-seconds", "worker-scaler.refresh-interval"),
        "be 0 or more than refresh-interval: no task can be seen to move within less, and every one would be stuck",
        lambda s: (
            not s.worker_scaler.stuck_task_expire_seconds
            or s.worker_scaler.stuck_task_expire_seconds > s.worker_scaler.refresh_interval
        ),
    ),
    Rule(
        ("signals.sqs.region", "signals.sqs.queue-url"),
        "be the region of queue-url: AWS accepts no request that is signed for another one",
        _one_region,
    ),
    Rule(
        ("worker-scaler.listen", "observability.listen"),
        "differ from observability.listen: one process listens on both",
        lambda s: not s.worker_scaler.run or _apart(s.worker_scaler.listen, s.observability.listen),
    ),
    Rule(
        ("webhook.health-listen", "webhook.listen"),
        "differ from listen: one process listens on both",
        lambda s: _apart(s.webhook.health_listen, s.webhook.listen),
    ),
    Rule(
        ("certs.leaf-lifetime", "certs.ca-lifetime"),
        "be at most ca-lifetime",
        lambda s: s.certs.leaf_lifetime <= s.certs.ca_lifetime,
    ),
    Rule(
        ("certs.overlap", "certs.leaf-lifetime"),
        "be less than leaf-lifetime",
        lambda s: s.certs.overlap < s.certs.leaf_lifetime,
    ),
    Rule(
        ("certs.overlap", "certs.ca-lifetime"),
        "be less than a third of ca-lifetime: a CA is replaced after two thirds, and would end before its leaves are",
        lambda s: s.certs.mode != "self-managed" or s.certs.overlap < s.certs.ca_lifetime / 3,
    ),
    Rule(
        ("leader-election.lease-duration", "leader-election.renew-deadline"),
        "be more than renew-deadline",
        lambda s: s.leader_election.lease_duration > s.leader_election.renew_deadline,
    ),
    Rule(
        ("leader-election.renew-deadline", "leader-election.retry-period"),
        f"be more than {RETRY_JITTER} times retry-period",
        lambda s: s.leader_election.renew_deadline > RETRY_JITTER * s.leader_election.retry_period,
    ),
)

ADVICE: Final = (
    Rule(
        ("worker-scaler.shared-scale-up-tasks-per-pod", "worker-scaler.shared-max-tasks-per-pod"),
        "be at most shared-max-tasks-per-pod: pods are full before the pool's size counts them as such",
        lambda s: s.worker_scaler.shared_scale_up_tasks_per_pod <= s.worker_scaler.shared_max_tasks_per_pod,
    ),
    Rule(
        ("worker-scaler.spawn-data-size", "worker-scaler.max-size"),
        "be less than max-size: no task ever gets a dedicated worker for its size",
        lambda s: s.worker_scaler.spawn_data_size < s.worker_scaler.max_size,
    ),
    Rule(
        ("webhook.keep-alive",),
        "be more than 90s: the API server keeps idle connections that long, and would meet closed ones",
        lambda s: s.webhook.keep_alive > API_SERVER_IDLE,
    ),
)


def broken(settings: Settings, origins: Mapping[str, Origin], reported: Collection[str]) -> Iterator[Problem]:
    """A problem for each rule that does not hold."""
    for rule in RULES:
        if not any(key in reported for key in rule.keys) and not rule.holds(settings):
            yield rule.complaint(settings, origins, "must")


def doubtful(settings: Settings, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """A warning for each piece of advice that is not followed."""
    for rule in ADVICE:
        if not rule.holds(settings):
            yield rule.complaint(settings, origins, "should")
