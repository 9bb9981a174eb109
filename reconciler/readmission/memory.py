"""What became of deletions, by owner: only this process knows, and only for as long as it leads.

The successor of a deleted pod is awaited. One that carries what is decided shows that admission does its part; one
that came back as it was shows that it does not (the webhook is down, or leaves the pod as it is for a reason that
cannot be seen here), and each further try waits twice as long. A new leader tries once more than it would have to.

Instants are monotonic seconds.
"""

from dataclasses import dataclass
from typing import Final

from ebbtide.kube.backoff import doubled
from reconciler.readmission.decide import History, OwnerKey

# Controllers replace a pod within a second; one that takes longer than this is scaled down, or has troubles of its own.
CONFIRM_WITHIN: Final = 60.0
FIRST_PAUSE: Final = 60.0
LONGEST_PAUSE: Final = 3600.0
# Somebody has to look at it: a webhook that restarts, or a certificate that is renewed, is through by then.
WARN_AFTER: Final = 3


@dataclass(slots=True)
class OwnerMemory:
    """One owner's share. `deleted` is the UID whose successor is awaited, None when none is."""

    deleted: str | None = None
    asked_at: float = 0.0
    left: bool = False
    futile: int = 0
    retry_at: float = 0.0

    def asking(self, uid: str, monotonic: float) -> None:
        """A deletion is about to be sent."""
        self.deleted, self.asked_at, self.left = uid, monotonic, False

    def refused(self) -> None:
        """The pod was not deleted."""
        self.deleted = None

    def gone(self, uid: str) -> None:
        """A pod has gone, or is on its way out: what comes after it was made after it."""
        self.left = self.left or uid == self.deleted

    def came(self, right: bool | None, monotonic: float) -> bool:
        """A pod came that carries what is decided, or does not, or may do neither yet; True for a futile deletion."""
        awaited = self.deleted is not None and self.left
        if awaited:
            self.deleted = None
        if right:
            self.futile, self.retry_at = 0, 0.0
        if not awaited or right is not False:
            return False
        self.retry_at = monotonic + doubled(FIRST_PAUSE, self.futile, LONGEST_PAUSE)
        self.futile += 1
        return True

    def history(self, monotonic: float) -> History:
        confirms_in = 0.0 if self.deleted is None else self.asked_at + CONFIRM_WITHIN - monotonic
        return History(max(0.0, confirms_in), max(0.0, self.retry_at - monotonic), self.futile)

    def is_over(self, monotonic: float) -> bool:
        """Whether nothing would be lost with it: an owner that was left alone for so long may be tried anew."""
        return monotonic > max(self.asked_at + CONFIRM_WITHIN, self.retry_at + LONGEST_PAUSE)


class Memory:
    """All owners' shares."""

    def __init__(self) -> None:
        self._owners: dict[OwnerKey, OwnerMemory] = {}

    def of(self, owner: OwnerKey) -> OwnerMemory:
        return self._owners.setdefault(owner, OwnerMemory())

    def known(self, owner: OwnerKey) -> OwnerMemory | None:
        return self._owners.get(owner)

    def history(self, owner: OwnerKey, monotonic: float) -> History:
        known = self._owners.get(owner)
        return History() if known is None else known.history(monotonic)

    def sweep(self, monotonic: float) -> None:
        """Forgets what is over."""
        self._owners = {owner: share for owner, share in self._owners.items() if not share.is_over(monotonic)}
