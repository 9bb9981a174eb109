"""What the looks of the pool share: what is known, who waits, and the ledger that both have to agree with."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from ebbtide.clock import Clock
from reconciler.scaler.shared import ledger as book
from reconciler.scaler.shared.facts import Pool, Rules
from reconciler.scaler.shared.ledger import Ledger
from reconciler.scaler.shared.memory import Memory
from reconciler.scaler.shared.queue import Waiting
from reconciler.scaler.shared.snapshot import Snapshot

# Seconds for which workers are asked for a cluster after its last task has ended, or its last promise has run out.
CLUSTERS_KEPT: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Basis:
    """What decisions are made from."""

    rules: Rules
    memory: Memory
    snapshot: Snapshot
    waiting: Waiting


class Standing:
    """The pool as this process sees it in the present term.

    Ordinals from `closing` on are being removed; nothing is promised there. `doubtful` says that a write of the set's
    size may still be under way, an earlier leader's or one of ours without an answer. `refused` is why pods that are
    missing cannot be made.
    """

    def __init__(self, basis: Basis, ledger: Ledger, clock: Clock, *, dry_run: bool) -> None:
        self.rules, self.memory, self.snapshot, self.waiting = basis.rules, basis.memory, basis.snapshot, basis.waiting
        self.ledger = ledger
        self.clock = clock
        self.dry_run = dry_run
        self.closing: int | None = None
        self.doubtful = False
        self._clusters: dict[int, float] = {}
        self.term = ""
        self.refused = ""
        self.leading = False
        self._discovered = False
        self._adopted = False
        self._one_reader = asyncio.Lock()

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def begin(self) -> None:
        """A new term: others may have led."""
        self.memory.clear()
        self.snapshot.begin(self.now)
        self.ledger.doubt()
        self.closing, self.doubtful, self._adopted, self.refused = None, False, False, ""
        self.leading, self._discovered = True, False
        self.term = f"{self.clock.now():.3f}"

    def end(self) -> None:
        """The term is over: what is known is kept for readers."""
        self.leading = False

    @property
    def discovered(self) -> str:
        """Empty once everything was read in this term; until then what is still to be read, in words."""
        if not self._discovered:
            unread = self._unread() if self.leading else "the pool has not been looked at"
            self._discovered = not unread
            return unread
        return ""

    @property
    def clusters(self) -> frozenset[int]:
        """Those that the pool has tasks of, or had until a while ago: a client may begin long after it was sent."""
        self._use({pin.cluster for pin in self.memory.pins.values()})
        self._clusters = {cluster: at for cluster, at in self._clusters.items() if self.now - at < CLUSTERS_KEPT}
        return frozenset(self._clusters)

    def _use(self, clusters: Iterable[int]) -> None:
        self._clusters.update(dict.fromkeys(clusters, self.now))

    def pool(self) -> Pool:
        """The pool as it is now, with who waits."""
        return replace(self.snapshot.pool(self.waiting.sizes, self.closing, self.now), refused=self.refused)

    def _unread(self) -> str:
        if self.snapshot.unknown:
            return self.snapshot.unknown
        if not self._adopted:
            return "the pool's promises have not been read yet"
        unread = list(self.snapshot.unread(self.clusters, self.now))
        return f"tasks of {', '.join(unread[:3])} have not been read yet" if unread else ""

    # --- the ledger ----------------------------------------------------------------------------------------------

    async def agree(self) -> bool:
        """Makes sure that what is stored is known; whether it had to be read. Raises KubeError."""
        async with self._one_reader:
            if self.ledger.certain:
                return False
            record = await (self.ledger.look() if self.dry_run else self.ledger.take_over(self.term))
            self.memory.adopt(record.entries, self.now)
            self.memory.changed |= {*record.entries, *(pin.ordinal for pin in self.memory.pins.values())}
            self._use(record.clusters)
            if record.closing is not None:
                # Whoever wrote it may be gone, and its write of the set's size still on the way.
                self.closing, self.doubtful = record.closing, True
            self._adopted = True
            return True

    async def store(self, clusters: Iterable[int] = ()) -> None:
        """Brings the ledger up to date with the memory. Raises KubeError, LedgerFullError."""
        async with self._changes() as entries:
            await self.ledger.save(entries, self.clusters.union(clusters))
        self._use(clusters)

    async def close(self, ordinal: int) -> None:
        """From here on nothing is promised on that ordinal and above. Raises KubeError, LedgerFullError."""
        self.closing = ordinal
        async with self._changes() as entries:
            await self.ledger.close(ordinal, entries)

    async def open(self) -> None:
        """What was being removed is gone, or stays. Raises KubeError, LedgerFullError."""
        self.closing, self.doubtful = None, False
        if self.ledger.certain:
            async with self._changes() as entries:
                await self.ledger.close(None, entries)

    @asynccontextmanager
    async def _changes(self) -> AsyncIterator[dict[int, str]]:
        """What the ledger does not have yet; it stays so when the block fails."""
        changed, self.memory.changed = self.memory.changed, set()
        try:
            yield {ordinal: book.write(self.memory.entries(ordinal)) for ordinal in changed}
        except BaseException:
            self.memory.changed |= changed
            raise
