"""What a pod carries already, compared with what it should.

What counts is the scheduler's reading: a pod that its own selector keeps out of a zone avoids it as well as one that
admission has changed. Our own part is known by the annotation, together with an expression of the very same zones; an
annotation alone (copied into a template, say) keeps nobody out of anything.
"""

from dataclasses import dataclass

from ebbtide.exclusion.decide import Exclusion
from ebbtide.exclusion.pod import PodTraits


@dataclass(frozen=True, slots=True)
class Difference:
    """Zones that the pod should avoid and may enter, and zones that only we keep it out of, without a reason now."""

    missing: tuple[str, ...]
    stale: tuple[str, ...]

    def __str__(self) -> str:
        parts = (
            f"it may enter {_zones(self.missing)}, blocked now" if self.missing else "",
            f"it is kept out of {_zones(self.stale)}, not to be avoided any more" if self.stale else "",
        )
        return " and ".join(part for part in parts if part)


def carried_by_us(pod: PodTraits) -> frozenset[str]:
    """The zones that admission excluded from this pod earlier."""
    zones = pod.blocked_zones
    return zones if zones and pod.choice.excludes_exactly(zones) else frozenset()


def difference(pod: PodTraits, exclusion: Exclusion) -> Difference | None:
    """How the pod differs from `exclusion`, None when it carries what is decided, or is to be left alone."""
    if exclusion.skipped is not None and exclusion.skipped.leaves_alone:
        return None
    missing = [zone for zone in exclusion.zones if not _avoids(pod, zone, exclusion)]
    stale = sorted(carried_by_us(pod) - frozenset(exclusion.zones))
    return Difference(tuple(missing), tuple(stale)) if missing or stale else None


def _avoids(pod: PodTraits, zone: str, exclusion: Exclusion) -> bool:
    return all(pod.choice.avoids(zone, label) for label in exclusion.zone_labels)


def _zones(names: tuple[str, ...]) -> str:
    return f"zone {names[0]}" if len(names) == 1 else f"zones {', '.join(names)}"
