"""What DELETE does to an object: preconditions, grace period, finalizers.

Follows k8s.io/apiserver `pkg/registry/rest/delete.go` (BeforeDelete) and the pods' CheckGracefulDelete.
"""

from dataclasses import dataclass
from typing import Any, Final

from ebbtide.model import format_time, parse_time
from ebbtide.sim.kinds import NAMESPACES, PODS
from ebbtide.sim.refusals import PreconditionFailed
from ebbtide.sim.stored import Object, Stored

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"
# The API server's default for pods that do not say.
DEFAULT_GRACE_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Deletion:
    """DeleteOptions. `grace_seconds` None leaves it to the object; empty preconditions hold always.

    `propagation` is `Background`, `Foreground`, `Orphan`, or empty for the server's default (Background).
    """

    uid: str = ""
    resource_version: str = ""
    grace_seconds: int | None = None
    propagation: str = ""
    dry_run: bool = False


DEFAULTS: Final = Deletion()


def check_preconditions(stored: Stored, options: Deletion) -> None:
    """Raises PreconditionFailed when the live object is not the one that was meant."""
    if options.uid and options.uid != stored.uid:
        raise PreconditionFailed.of(
            stored.kind,
            stored.name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({stored.uid}). "
            "The object might have been deleted and then recreated",
        )
    version = str(stored.version)
    if options.resource_version and options.resource_version != version:
        raise PreconditionFailed.of(
            stored.kind,
            stored.name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified",
        )


def marked(stored: Stored, options: Deletion, now: float) -> Object | None:
    """The object with its deletion written down, None when it is already being deleted no slower than asked."""
    body = stored.copy()
    metadata = body["metadata"]
    if stored.deleting:
        return body if _shortened(metadata, options, now) else None
    grace = _grace_seconds(stored, options)
    metadata["deletionTimestamp"] = format_time(int(now) + grace)
    if stored.kind is not NAMESPACES:
        metadata["deletionGracePeriodSeconds"] = grace
    _set_propagation(metadata, options.propagation)
    if stored.kind is NAMESPACES:
        body.setdefault("status", {})["phase"] = "Terminating"
    return body


def complete(body: Object) -> bool:
    """Whether nothing holds the object any more: its deletion is asked for, finalizers and grace period are through."""
    metadata = body["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if body["kind"] == NAMESPACES.kind and body.get("spec", {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _grace_seconds(stored: Stored, options: Deletion) -> int:
    if stored.kind is not PODS:
        return 0
    spec, phase = stored.body.get("spec", {}), stored.body.get("status", {}).get("phase")
    if not spec.get("nodeName") or phase in {"Failed", "Succeeded"}:
        return 0
    wanted = options.grace_seconds
    if wanted is None:
        wanted = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    return 1 if wanted < 0 else int(wanted)


def _shortened(metadata: dict[str, Any], options: Deletion, now: float) -> bool:
    """Only a shorter grace period than the one that runs is taken over; its end is never in the past."""
    wanted, running = options.grace_seconds, metadata.get("deletionGracePeriodSeconds") or 0
    if wanted is None or wanted >= running:
        return False
    wanted = 1 if wanted < 0 else wanted
    began = (parse_time(metadata["deletionTimestamp"]) or now) - running
    end = began + wanted
    if end < now:
        end, wanted = now, min(wanted, 1)
    metadata["deletionTimestamp"] = format_time(int(end))
    metadata["deletionGracePeriodSeconds"] = wanted
    return True


def _set_propagation(metadata: dict[str, Any], propagation: str) -> None:
    if not propagation:
        return
    special = {"Foreground": FOREGROUND_FINALIZER, "Orphan": ORPHAN_FINALIZER}
    kept = [name for name in metadata.get("finalizers", []) if name not in special.values()]
    if propagation in special:
        kept.append(special[propagation])
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)
