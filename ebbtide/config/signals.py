"""`[signals.*]`: where rebalance recommendations come from, beside programs that taint nodes themselves."""

from ebbtide.config.kinds import HttpUrl, OptionalHttpUrl, OptionalRegion, PositiveSeconds, Section


class Imds(Section, frozen=True):
    """Instance metadata, polled by the per-node agent."""

    endpoint: HttpUrl = "http://169.254.169.254"
    """Instance metadata service of the node."""

    poll_interval: PositiveSeconds = 2.0
    """How often it is asked. Longer: signals are seen later."""


class Sqs(Section, frozen=True):
    """A queue of EventBridge messages, read by the reconciler."""

    queue_url: OptionalHttpUrl = ""
    """Queue with "EC2 Instance Rebalance Recommendation" messages. "": no queue is read."""

    region: OptionalRegion = ""
    """Region of the queue. "": as the AWS environment says."""


class Signals(Section, frozen=True):
    """Sources of signals."""

    imds: Imds = Imds()

    sqs: Sqs = Sqs()
