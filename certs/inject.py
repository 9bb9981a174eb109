"""The CA bundle into every entry of every configuration that asks for it, and into nothing else.

Server-side apply under a field manager of its own: only `caBundle` is ours, whoever else writes the object keeps the
rest. Another writer that keeps setting its own bundle is not fought in a hot loop: each bundle has a few quick tries
in each configuration, which come back slowly. What rotations publish costs nothing of that: after several steps in a
row a bundle that is wiped has to be back as soon as ever.
"""

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Final

from certs.live import Configuration, configuration
from certs.report import Report
from ebbtide.clock import Clock
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Conflict, Forbidden, Invalid, NotFound
from ebbtide.kube.resources import MUTATING_WEBHOOKS
from ebbtide.kube.store import Store
from ebbtide.vocabulary import FIELD_MANAGER_CERTS

# Quick tries for a bundle in a configuration, and the seconds after which one of them comes back.
QUICK_TRIES: Final = 5
SLOW: Final = 60.0
# A write that met a newer version: its event is on the way.
_SOON: Final = 1.0


@dataclass(frozen=True, slots=True)
class Published:
    """`wrote` counts the configurations that were changed; `again` is when to come back for others, None for never."""

    wrote: int
    again: float | None


@dataclass(slots=True)
class Patience:
    """The tries to keep one bundle in one configuration: a bucket that holds a few and fills slowly."""

    tries: float = QUICK_TRIES
    counted_at: float = field(default=float("-inf"))
    contested: bool = False

    def wait(self, now: float) -> float:
        """Seconds until a try may be made; 0 for now. `now` is monotonic."""
        self.tries = min(float(QUICK_TRIES), self.tries + (now - self.counted_at) / SLOW)
        self.counted_at = now
        if self.tries >= QUICK_TRIES:
            self.contested = False
        return max(0.0, (1.0 - self.tries) * SLOW)

    def spend(self) -> None:
        self.tries -= 1.0

    def take_back(self) -> None:
        """It was none: nobody else has written."""
        self.tries += 1.0


class Injector:
    """Keeps the bundle in the configurations of `store`."""

    def __init__(self, client: Client, store: Store[Configuration], clock: Clock, report: Report) -> None:
        self._client = client
        self._store = store
        self._clock = clock
        self._report = report
        self._patience: dict[tuple[str, bytes], Patience] = {}

    def forget(self) -> None:
        """A new term: others may have led, nothing is known of earlier tries."""
        self._patience.clear()

    async def publish(self, bundle: bytes) -> Published:
        """Writes every configuration that has another bundle. Raises KubeError.

        One that we may not write is told of when all others are written.
        """
        wrote, waits, forbidden = 0, list[float](), list[Forbidden]()
        known = tuple(self._store.values())
        keys = [(each.uid, bundle) for each in known]
        self._patience = {key: self._patience.get(key, Patience()) for key in keys}
        for found in known:
            if not found.lacks(bundle):
                continue
            if wait := self._may_try(found, bundle):
                waits.append(wait)
                continue
            try:
                applied = await self._apply(found, bundle)
            except Forbidden as error:
                forbidden.append(error)
                continue
            if applied:
                wrote += 1
            else:
                waits.append(_SOON)
        if forbidden:
            raise forbidden[0]
        return Published(wrote, min(waits, default=None))

    def _may_try(self, found: Configuration, bundle: bytes) -> float:
        patience = self._patience[found.uid, bundle]
        wait = patience.wait(self._clock.monotonic())
        if wait and not patience.contested:
            patience.contested = True
            self._report.contested(found)
        return wait

    async def _apply(self, found: Configuration, bundle: bytes) -> bool:
        """False when the object is no longer what was seen: it has changed or gone."""
        patience = self._patience[found.uid, bundle]
        patience.spend()
        try:
            answer = await self._client.apply(
                MUTATING_WEBHOOKS, found.name, _body(found, bundle), field_manager=FIELD_MANAGER_CERTS, force=True
            )
        except Forbidden:
            patience.take_back()
            raise
        except (Conflict, NotFound, Invalid) as error:
            self._report.not_injected(found, error)
            return False
        self._store.observe(answer)
        self._report.injected(found)
        return not configuration(answer).lacks(bundle)


def _body(found: Configuration, bundle: bytes) -> dict[str, Any]:
    """Every entry, since what an apply leaves out is given up; in the version that has just these entries."""
    text = b64encode(bundle).decode()
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": {"name": found.name, "uid": found.uid, "resourceVersion": str(found.resource_version)},
        "webhooks": [{"name": entry.name, "clientConfig": {"caBundle": text}} for entry in found.entries],
    }
