"""EventBridge envelopes of EC2, as SQS hands them over.

Shapes: EC2 user guide, "Monitor rebalance recommendation signals" and "Spot Instance interruption notices".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ebbtide.notices import WARNING_TIME, Kind, Notice, notice_time

REBALANCE: Final = "EC2 Instance Rebalance Recommendation"
INTERRUPTION: Final = "EC2 Spot Instance Interruption Warning"
_SOURCE: Final = "aws.ec2"
# i- and seventeen digits; older ones have eight.
_LONGEST_INSTANCE: Final = 32
_LONGEST_ACTION: Final = 32


class MalformedError(ValueError):
    """No envelope that EventBridge would send, or one of these two kinds without what it must have."""


@dataclass(frozen=True, slots=True)
class InstanceNotice:
    """What a message says about an instance."""

    instance: str
    notice: Notice


def read(body: str) -> InstanceNotice | None:
    """What is said, None for an envelope of another kind. Raises MalformedError."""
    try:
        envelope = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedError(f"no JSON: {error}") from error
    if not isinstance(envelope, Mapping) or not isinstance(envelope.get("detail-type"), str):
        raise MalformedError("no EventBridge envelope")
    if envelope.get("source") != _SOURCE or envelope["detail-type"] not in (REBALANCE, INTERRUPTION):
        return None
    try:
        return _told(envelope, envelope["detail"])
    except (ValueError, LookupError, TypeError) as error:
        raise MalformedError(f"{envelope['detail-type']}: {error!r}") from error


def _told(envelope: Mapping[str, Any], detail: Mapping[str, Any]) -> InstanceNotice:
    instance, time = detail["instance-id"], notice_time(envelope["time"])
    if not isinstance(instance, str) or not instance.startswith("i-") or len(instance) > _LONGEST_INSTANCE:
        raise ValueError("no instance id")
    if envelope["detail-type"] == REBALANCE:
        return InstanceNotice(instance, Notice(Kind.REBALANCE, time))
    action = str(detail.get("instance-action") or "")[:_LONGEST_ACTION]
    return InstanceNotice(instance, Notice(Kind.INTERRUPTION, time + WARNING_TIME, action))
