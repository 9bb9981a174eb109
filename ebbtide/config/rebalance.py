"""`[node-rebalance]`: when a zone of a node group is blocked, and whose pods are evicted."""

from fnmatch import fnmatchcase
from typing import Literal

from ebbtide import vocabulary
from ebbtide.config.kinds import Count, LabelKey, Patterns, PositiveSeconds, Seconds, Section
from ebbtide.model import CellLabels


class NodeRebalance(Section, frozen=True):
    """Zone rebalance: blocks growth in a zone that AWS signals for, and moves the pods of signalled nodes out."""

    run: bool = True
    """Whether the reconciler runs zone rebalance at all. Off: blocks that exist stay as they are."""

    rebalance_signal_taint_key: LabelKey = vocabulary.SIGNAL_TAINT_KEY
    """Taint key by which a node is known to have a rebalance recommendation; value and effect do not matter."""

    prevent_ca_scale_up_taint_key: LabelKey = vocabulary.PREVENT_TAINT_KEY
    """Key of the taint that keeps the Cluster Autoscaler from growing a blocked zone; its effect is NoSchedule. Must
    not have one of the prefixes that the autoscaler leaves out of its templates. After a change, taints under the old
    key stay until they are cleaned up."""

    node_group_label: LabelKey = vocabulary.NODE_GROUP_LABEL
    """Node label whose value is the node group. A node without it is left alone."""

    zone_label: LabelKey = vocabulary.ZONE_LABEL
    """Node label whose value is the zone; where it is missing, `failure-domain.beta.kubernetes.io/zone` is read."""

    node_groups: Patterns = ("*",)
    """Node groups that may be blocked. Nodes of other groups are neither tainted nor emptied."""

    max_rebalance_signal_time: Seconds = 300.0
    """How long the only signal of a zone is waited for to go away before the zone is blocked. Two signals block at
    once. Longer: fewer moves on false alarms, less time before the instance may be taken."""

    retry_too_many_requests_time: PositiveSeconds = 10.0
    """Pause before a pod is asked to leave again after a PodDisruptionBudget refused; jitter is added."""

    hold_down: Seconds = 0.0
    """How long a block is kept after the last signal has gone. 0 opens the zone at once; longer avoids flapping when
    signals come and go."""

    min_open_zones: Count = 0
    """Number of zones of a node group that are never blocked. 0 allows all of them to be blocked, after which pods
    that need a new node stay Pending."""

    evict_bare_pods: bool = True
    """Whether pods without a controller are evicted too. Nothing starts them again elsewhere."""

    zonal_volume_policy: Literal["evict", "hold"] = "evict"
    """What happens to a pod whose bound volume exists only in the blocked zone: "evict" asks it to leave (it waits,
    Pending, for its zone), "hold" leaves it on its node."""

    max_evictions_in_flight: Count = 0
    """Most evictions under way at once per node group. 0: only PodDisruptionBudgets limit them."""

    resync_period: PositiveSeconds = 300.0
    """How often every zone is looked at again without any event."""

    cluster_autoscaler_scan_interval: PositiveSeconds = 10.0
    """The autoscaler's `--scan-interval`: how long a block must have held until its cached template carries it."""

    cluster_autoscaler_stabilization: Seconds = 60.0
    """Age after Ready from which the autoscaler takes a node as template. Only for the verdict on whether a block
    holds; nothing is written by it."""

    @property
    def labels(self) -> CellLabels:
        """By which labels a node's group and zone are known."""
        return CellLabels(self.node_group_label, self.zone_label)

    def manages(self, group: str) -> bool:
        """Whether the group is one that the operator wants to be blocked at all."""
        return any(fnmatchcase(group, pattern) for pattern in self.node_groups)
