"""What is left of an object once the server has read it into its types and written it out again.

The embedded server has no types, so it imitates what Go's `omitempty` does: nulls and empty lists go everywhere, empty
maps, empty strings, false and zero only in the fields that are known to be omitted. An emptied `spec.taints` is
gone, `podSelector: {}` stays (there it is a pointer and means something).
"""

from datetime import UTC, datetime
from typing import Any, Final

from ebbtide.sim.refusals import BadRequest


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Maps of strings: an empty one is not written out; what is inside is kept as it is.
_STRING_MAPS: Final = _words(
    "labels annotations matchLabels nodeSelector data stringData binaryData limits requests capacity allocatable "
    "parameters disruptedPods"
)
# Scalars with `omitempty` in k8s.io/api that ebbtide, its tests or the demo could ever empty, and what "empty" is.
_EMPTY: Final[dict[str, Any]] = {
    **dict.fromkeys(
        _words(
            "value effect operator timeAdded generateName namespace nodeName providerID podCIDR serviceAccountName "
            "schedulerName priorityClassName hostname subdomain reason note action type nominatedNodeName "
            "hostIP podIP clusterIP volumeName caBundle path name key phase reportingController reportingInstance"
        ),
        "",
    ),
    **dict.fromkeys(
        _words("unschedulable hostNetwork hostPID hostIPC paused stdin tty publishNotReadyAddresses"), False
    ),
    **dict.fromkeys(
        _words(
            "readyReplicas updatedReplicas currentReplicas fullyLabeledReplicas unavailableReplicas observedGeneration "
            "minReadySeconds count"
        ),
        0,
    ),
}
# Fields of type `metav1.Time`; others (of leases and events) are of `metav1.MicroTime`.
_TIMES: Final = _words("timeAdded lastTransitionTime lastHeartbeatTime startTime startedAt finishedAt")


def tidy(value: dict[str, Any]) -> dict[str, Any]:
    """The object without what the real server would not write out."""
    tidied: dict[str, Any] = {}
    for key, inner in value.items():
        if inner is None or inner == []:
            continue
        if isinstance(inner, dict):
            kept = _strings(inner) if key in _STRING_MAPS else tidy(inner)
            if kept or key not in _STRING_MAPS:
                tidied[key] = kept
        elif isinstance(inner, list):
            tidied[key] = [tidy(entry) if isinstance(entry, dict) else entry for entry in inner]
        elif key not in _EMPTY or inner != _EMPTY[key]:
            tidied[key] = _time(inner) if key in _TIMES else inner
    return tidied


def _time(text: Any) -> str:
    """A `metav1.Time` as it is written out: in UTC, without fractions. Raises BadRequest for what is no time."""
    try:
        read = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise BadRequest(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00"') from None
    if read.tzinfo is None:
        raise BadRequest(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00"')
    return read.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def _strings(value: dict[str, Any]) -> dict[str, Any]:
    return {key: text for key, text in value.items() if text is not None}
