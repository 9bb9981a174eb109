"""The words of a `coordination.k8s.io/v1` Lease, read and written as client-go does; pure.

A record says who leads and how long others have to see it unchanged before they may take it. Its times are written
for people: nobody's decision reads another machine's clock.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ebbtide.model import format_micro_time, parse_time

# Annotations under it are what holders tell of themselves.
_OURS = "ebbtide/"
# What a holder that goes leaves behind (client-go: the smallest duration that the API accepts).
_RELEASED_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Record:
    """The spec of a Lease. Times are epoch seconds, None where the Lease has none; `duration` in seconds.

    `metadata` is the object's metadata as it was read: it carries the resourceVersion that a write depends on, and
    other people's labels and annotations, which are kept.
    """

    holder: str
    duration: float
    acquired: float | None
    renewed: float | None
    transitions: int
    metadata: Mapping[str, Any] = field(compare=False)

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the Lease, with those that the holder has put there."""
        return self.metadata.get("annotations") or {}


def read(raw: Mapping[str, Any], default_duration: float) -> Record:
    """Reads a Lease; a duration that is missing or nonsense counts as `default_duration`."""
    spec = raw.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    return Record(
        holder=str(spec.get("holderIdentity") or ""),
        duration=float(duration) if isinstance(duration, int) and duration > 0 else default_duration,
        acquired=parse_time(spec.get("acquireTime")),
        renewed=parse_time(spec.get("renewTime")),
        transitions=int(spec.get("leaseTransitions") or 0),
        metadata=raw["metadata"],
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """What one candidate writes: its identity, how long others shall wait (seconds), its annotations."""

    identity: str
    duration: float
    annotations: Mapping[str, str]

    def first(self, name: str, now: float) -> Record:
        """The record for a Lease that does not exist yet."""
        metadata = {"name": name, "annotations": dict(self.annotations)}
        return Record(self.identity, self.duration, acquired=now, renewed=now, transitions=0, metadata=metadata)

    def held(self, before: Record, now: float) -> Record:
        """The record of holding from `now` on: a renewal when it was held already, otherwise an acquisition."""
        renewal = before.holder == self.identity
        found = before.annotations if renewal else _others(before.annotations)
        return Record(
            holder=self.identity,
            duration=self.duration,
            acquired=before.acquired if renewal else now,
            renewed=now,
            transitions=before.transitions + (0 if renewal else 1),
            metadata={**before.metadata, "annotations": {**found, **self.annotations}},
        )

    def released(self, before: Record, now: float) -> Record:
        """The record that lets the next candidate in at once, without what this one had put beside it."""
        kept = {key: value for key, value in before.annotations.items() if key not in self.annotations}
        metadata = {**before.metadata, "annotations": kept}
        return Record("", _RELEASED_SECONDS, now, now, before.transitions, metadata)


def body(record: Record) -> dict[str, Any]:
    """The Lease to send."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": dict(record.metadata),
        "spec": {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": math.ceil(record.duration),
            "acquireTime": _written(record.acquired),
            "renewTime": _written(record.renewed),
            "leaseTransitions": record.transitions,
        },
    }


def _others(annotations: Mapping[str, str]) -> dict[str, str]:
    """Without what a holder before, which may be gone without a word, has told of itself."""
    return {key: value for key, value in annotations.items() if not key.startswith(_OURS)}


def _written(epoch: float | None) -> str | None:
    return None if epoch is None else format_micro_time(epoch)
