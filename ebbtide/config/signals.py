"""`[signals.*]`: where rebalance recommendations come from, beside programs that taint nodes themselves."""

import re
from typing import Final
from urllib.parse import urlsplit

from ebbtide.config.kinds import HttpUrl, OptionalHttpUrl, OptionalRegion, PositiveSeconds, Section
from ebbtide.config.names import is_aws_region

# `sqs.eu-central-1.amazonaws.com`, `vpce-….sqs.eu-central-1.vpce.amazonaws.com`, `eu-central-1.queue.amazonaws.com`
_REGION: Final = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([a-z0-9-]+)\.|^([a-z0-9-]+)\.queue\.")


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

    @property
    def named_region(self) -> str:
        """The region that the queue's URL says, "" where it says none."""
        match = _REGION.search(self._host)
        found = (match[1] or match[2]) if match else ""
        return found if is_aws_region(found) else ""

    @property
    def is_at_aws(self) -> bool:
        """Whether the URL is one of AWS's own, which mean what they say; proxies have any names."""
        return self._host.endswith((".amazonaws.com", ".amazonaws.com.cn"))

    @property
    def _host(self) -> str:
        return urlsplit(self.queue_url).hostname or ""


class Signals(Section, frozen=True):
    """Sources of signals."""

    imds: Imds = Imds()

    sqs: Sqs = Sqs()
