"""What a webhook replica says about itself in an annotation on its own pod: the CAs it knows, who issued its leaf.

The leader waits for it before it has leaves issued by a new CA, and after an accident learns from it which CA must
not be forgotten yet. To the replica the text has no meaning: it writes `check.Served.mark`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.vocabulary import CA_SEEN_ANNOTATION


@dataclass(frozen=True, slots=True)
class Replica:
    """A ready replica. CAs are named by the short form of their fingerprints; `issuer` is "" when it is not known."""

    pod: str
    knows: frozenset[str]
    issuer: str


def ready_replica(raw: Mapping[str, Any]) -> Replica | None:
    """Reads a Pod object; None for a pod that gets no requests."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    conditions = status.get("conditions") or ()
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    if not ready or metadata.get("deletionTimestamp") is not None:
        return None
    text = (metadata.get("annotations") or {}).get(CA_SEEN_ANNOTATION) or ""
    issuer, _, known = text.partition("/")
    return Replica(metadata["name"], frozenset(filter(None, known.split(","))), issuer)
