"""The pool's StatefulSet and Service: made when first needed, and kept as the settings and the template want them.

The template is read when it has changed, so that pods made from now on are of its present version. Pods that are there
are left alone. Volumes cannot be changed in a set: it is made anew, once it is empty.
"""

from dataclasses import dataclass
from typing import Final

from ebbtide import vocabulary
from ebbtide.kube.errors import AlreadyExists
from ebbtide.model import CellLabels
from reconciler.scaler.pods import WorkerSet
from reconciler.scaler.shared.act import Act
from reconciler.scaler.shared.objects import Design, design
from reconciler.scaler.shared.report import Report
from reconciler.scaler.shared.snapshot import Snapshot, is_ours
from reconciler.scaler.size import Size
from reconciler.scaler.stores import Stores
from reconciler.scaler.template import UnusableTemplateError


@dataclass(frozen=True, slots=True)
class DesiredPool:
    """What the settings want: the pool's name, the template's, and the size of a pod."""

    pool: str
    template: str
    size: Size
    cells: CellLabels


# The watch brings a set that was made within this many seconds; until then it is not made once more.
SEEN_WITHIN: Final = 5.0
# The Service is not watched; this often (seconds) it is seen to be there.
SERVICE_EVERY: Final = 5.0


class Keeping:
    """Keeps set and Service. `problem` says why no set can be made, "" when one can."""

    def __init__(self, desired: DesiredPool, act: Act, stores: Stores, snapshot: Snapshot, report: Report) -> None:
        self._desired = desired
        self._act = act
        self._stores = stores
        self._snapshot = snapshot
        self._report = report
        self._read: tuple[str, int] | None = None
        self._design: Design | None = None
        self._coming_until = float("-inf")
        self._service_seen = float("-inf")
        self.template_problem = ""

    @property
    def name_problem(self) -> str:
        """Why the pool's name cannot be had."""
        found = self._snapshot.set
        if found is None or is_ours(found):
            return ""
        return f"StatefulSet {found.name} is not ours: it lacks the label {vocabulary.POOL_LABEL}"

    @property
    def problem(self) -> str:
        return self.name_problem or self.template_problem

    @property
    def claims_pending(self) -> bool:
        """Whether the settings want other volumes than the set makes."""
        own = self._snapshot.own_set
        return own is not None and self._design is not None and self._design.claims_differ(_annotation(own))

    def concerns(self, found: WorkerSet) -> bool:
        """Whether it is what pods are made after."""
        return found.name == self._desired.template

    async def create(self, replicas: int, now: float) -> bool:
        """Makes the set, and its Service; False when that is not possible now. Raises KubeError."""
        await self._read_template()
        if self.problem or self._design is None or self._snapshot.set is not None or now < self._coming_until:
            return False
        try:
            await self._act.create(self._design, replicas)
        except AlreadyExists:
            return False  # it is seen in a moment, or is on its way out
        self._coming_until = now + SEEN_WITHIN
        await self._act.keep_service()
        self._report.created(replicas)
        return True

    async def refresh(self, own: WorkerSet, *, empty: bool) -> None:
        """Has pods made from now on as they are wanted now; makes an `empty` set anew if that takes it.

        Raises KubeError.
        """
        await self._read_template()
        annotation = _annotation(own)
        if self._design is None or not annotation:
            return
        if self._design.pods_differ(annotation):
            await self._act.redesign(own, self._design)
            self._report.redesigned()
        elif empty and self._design.claims_differ(annotation):
            await self._act.remove(own)
            self._report.made_anew()

    async def keep_service(self, now: float) -> None:
        """Makes the Service again if somebody has deleted it; looks every few seconds. Raises KubeError."""
        if now - self._service_seen < SERVICE_EVERY:
            return
        if await self._act.keep_service():
            self._report.service_created()
        self._service_seen = now

    async def _read_template(self) -> None:
        """Reads the template unless it is as it was."""
        known = self._stores.worker_set(self._desired.template)
        if known is None:
            self._read = None
            self._failed(f"template {self._desired.template} does not exist")
            return
        version = (known.uid, known.generation)
        if version == self._read:
            return
        try:
            template = await self._act.template(self._desired.template)
            self._read = version
        except UnusableTemplateError as error:
            self._read = version
            self._failed(str(error))
        else:
            self._design = design(template, self._desired.pool, self._desired.size, self._desired.cells)
            self.template_problem = ""

    def _failed(self, problem: str) -> None:
        self._design, self.template_problem = None, problem


def _annotation(own: WorkerSet) -> str:
    return own.annotations.get(vocabulary.POOL_SPEC_ANNOTATION, "")
