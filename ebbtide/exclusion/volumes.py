"""In which zones the volumes of a pod lie, from watched claims and volumes."""

from collections.abc import Iterable

from ebbtide.kube.store import Store
from ebbtide.model import ClaimFacts, VolumeFacts


class VolumeZones:
    """Looks claims up. A claim that is not bound, or a volume that is reached from everywhere, says nothing."""

    def __init__(self, claims: Store[ClaimFacts], volumes: Store[VolumeFacts]) -> None:
        self._claims = claims
        self._volumes = volumes

    @property
    def known(self) -> bool:
        """Whether claims and volumes have been read once."""
        return self._claims.synced and self._volumes.synced

    def of(self, namespace: str, claims: Iterable[str]) -> tuple[frozenset[str], ...]:
        """For each volume behind these claims that lies in zones: those zones."""
        found = (self._claims.get(f"{namespace}/{name}") for name in claims)
        volumes = (self._volumes.get(claim.volume) for claim in found if claim is not None and claim.volume)
        return tuple(volume.zones for volume in volumes if volume is not None and volume.zones is not None)
