"""What the parts of this controller stand on together: settings, knowledge of workers, memory."""

from dataclasses import dataclass

from ebbtide.clock import Clock
from ebbtide.config.scaler import WorkerScaler
from ebbtide.model import CellLabels
from reconciler.scaler.address import Addresses
from reconciler.scaler.dedicated.admission import Admission
from reconciler.scaler.dedicated.decide import Facts, Rules
from reconciler.scaler.dedicated.memory import MISSED_ANSWERS, Heard, Life, Lives
from reconciler.scaler.dedicated.report import Report
from reconciler.scaler.dedicated.sizes import Sizes
from reconciler.scaler.dedicated.snapshot import Snapshot, Worker
from reconciler.scaler.dedicated.wants import Wants
from reconciler.scaler.refusals import Refusals
from reconciler.scaler.resolving import Names
from reconciler.scaler.status.book import Book


@dataclass(frozen=True, slots=True)
class Basis:
    """Settings, knowledge and memory."""

    settings: WorkerScaler
    cells: CellLabels
    sizes: Sizes
    addresses: Addresses
    clock: Clock
    snapshot: Snapshot
    book: Book
    wants: Wants
    lives: Lives
    admission: Admission
    report: Report
    refusals: Refusals
    names: Names

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    @property
    def rules(self) -> Rules:
        return Rules.of(self.settings)

    def heard(self, worker: Worker) -> Heard:
        if worker.pod is None:
            return Heard()
        return Heard(self.book.last(worker.pod.uid), self.book.failing_since(worker.pod.uid))

    def facts(self, worker: Worker, life: Life) -> Facts:
        """Everything that is decided by, as of now."""
        now = self.now
        want = self.wants.get(worker.set.name, now)
        if want is not None:
            life.use(want.asked_at)
        facts = life.observe(worker.pod, self.heard(worker), now, self.valid_for)
        return facts.meanwhile(waited_for=want is not None, ending=worker.set.deleting or life.removed)

    @property
    def valid_for(self) -> float:
        """Seconds for which an answer says how a worker is."""
        return MISSED_ANSWERS * self.settings.refresh_interval + self.settings.status_timeout
