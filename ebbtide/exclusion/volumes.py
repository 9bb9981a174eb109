"""The volumes behind a pod's claims and the zones in which they lie, from watched claims and volumes."""

from collections.abc import Callable, Iterable

from ebbtide.kube.store import Store
from ebbtide.model import ClaimFacts, VolumeFacts


class BoundVolumes:
    """Looks claims up. A claim that is not bound, or a volume that is not known (yet), says nothing."""

    def __init__(self, claims: Store[ClaimFacts], volumes: Store[VolumeFacts]) -> None:
        self._claims = claims
        self._volumes = volumes

    @property
    def known(self) -> bool:
        """Whether claims and volumes have been read once."""
        return self._claims.synced and self._volumes.synced

    async def wait_known(self) -> None:
        """Returns when that is so."""
        await self._claims.wait_synced()
        await self._volumes.wait_synced()

    def on_change(self, handler: Callable[[], None]) -> None:
        """Calls `handler` whenever a claim or a volume has changed."""
        self._claims.subscribe(lambda _old, _new: handler())
        self._volumes.subscribe(lambda _old, _new: handler())

    def behind(self, namespace: str, claims: Iterable[str]) -> dict[str, VolumeFacts]:
        """By name of the claim, the volumes behind those of these claims that are bound."""
        found = ((name, self._claims.get(f"{namespace}/{name}")) for name in claims)
        volumes = ((name, self._volumes.get(claim.volume)) for name, claim in found if claim is not None)
        return {name: volume for name, volume in volumes if volume is not None}

    def zones(self, namespace: str, claims: Iterable[str]) -> tuple[frozenset[str], ...]:
        """For each volume behind these claims that lies in zones: those zones; not for one reached from everywhere."""
        volumes = self.behind(namespace, claims).values()
        return tuple(volume.zones for volume in volumes if volume.zones is not None)
