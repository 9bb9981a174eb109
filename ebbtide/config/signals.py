"""`[signals.*]`: where rebalance recommendations come from, beside programs that taint nodes themselves."""

from ebbtide.config.kinds import HttpUrl, OptionalHttpUrl, OptionalRegion, PositiveSeconds, Section


class Imds(Section, frozen=True):
    """Instance metadata, polled by `ebbtide agent` on each node."""

    endpoint: HttpUrl = "http://169.254.169.254"
    """Instance metadata service of the node."""

    poll_interval: PositiveSeconds = 2.0
    """How often it is asked. Longer: signals are seen later."""


class Sqs(Section, frozen=True):
    """A queue of EventBridge messages, read by the reconciler that leads; needs the extra `ebbtide[sqs]`."""

    queue_url: OptionalHttpUrl = ""
    """Queue with "EC2 Instance Rebalance Recommendation" and "EC2 Spot Instance Interruption Warning" messages. "": no
    queue is read."""

    region: OptionalRegion = ""
    """Region of the queue. "": as the queue's URL says, else as the AWS environment does."""


class Signals(Section, frozen=True):
    """Sources of signals."""

    imds: Imds = Imds()

    sqs: Sqs = Sqs()
