"""Which events lead to which look, and what a look is. A key is an owner; a look deletes at most one of its pods."""

import asyncio
from collections.abc import Iterable
from typing import Final

from ebbtide.clock import Clock
from ebbtide.exclusion.carried import difference
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.errors import KubeError
from ebbtide.kube.store import Store
from ebbtide.model import ClaimFacts, NamespaceFacts, VolumeFacts
from reconciler.engine.beside import Beside, running
from reconciler.engine.controller import Again, Controller
from reconciler.engine.informer import connect
from reconciler.engine.verdict import may_be_done
from reconciler.readmission.act import Act
from reconciler.readmission.decide import Deletion, OwnerKey, PendingPod, Plan, decide
from reconciler.readmission.memory import CONFIRM_WITHIN, Memory
from reconciler.readmission.report import Report
from reconciler.readmission.snapshot import SETTLE, Snapshot, WebhookFacts

# Seconds from the answer to one deletion to the next one: not more than five in any second as the API server sees it,
# however long one was on its way.
PAUSE: Final = 1 / 4.8
# How soon a look is repeated while the first lists are not complete.
_UNTIL_KNOWN: Final = 1.0


class Readmission:
    """Deletes waiting pods whose zone exclusion is out of date. `act` is None in a dry run."""

    def __init__(
        self,
        snapshot: Snapshot,
        clock: Clock,
        report: Report,
        act: Act | None,
        beside: tuple[Beside, ...],
        resync_period: float,
    ) -> None:
        self.name = "readmission"
        self._snapshot = snapshot
        self._clock = clock
        self._report = report
        self._act = act
        self._beside = beside
        self._memory = Memory()
        self._next_at = float("-inf")
        # One worker: deletions are few, and their pace is one for all owners.
        self.controller: Controller[OwnerKey] = Controller(
            self.name, self.reconcile, everything=self._everything, resync_period=resync_period
        )

    # --- life ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Looks and deletes until drained or cancelled; starts with an empty memory, since others may have led."""
        self._memory = Memory()
        self._snapshot.changed(self._clock.monotonic())
        try:
            async with running(self._beside):
                await self.controller.run()
        finally:
            self._report.clear()

    def drain(self) -> None:
        """Begins no further look, finishes the one under way."""
        self.controller.drain()

    def longest(self) -> float:
        """Seconds for which the oldest look under way has been running."""
        return self.controller.longest()

    # --- events --------------------------------------------------------------------------------------------------

    def follow(
        self,
        pods: Store[PendingPod],
        zones: BlockedZones,
        namespaces: Store[NamespaceFacts],
        webhooks: Store[WebhookFacts],
    ) -> None:
        """Connects what decides about all pods. To be called once."""
        owners = self._snapshot.owners
        pods.subscribe(self._pod_changed)
        connect(pods, _owners_of_pod, self.controller.queue)
        zones.on_change(self._settle)
        connect(namespaces, lambda old, new: owners.of_namespace(_name(old, new)), self.controller.queue)
        webhooks.subscribe(lambda _old, _new: self._settle(None))

    def follow_volumes(self, claims: Store[ClaimFacts], volumes: Store[VolumeFacts]) -> None:
        """Connects what decides about pods with volumes. To be called once, if at all."""
        owners = self._snapshot.owners
        connect(claims, self._owners_of_claim, self.controller.queue)
        connect(volumes, lambda _old, _new: owners.claiming(), self.controller.queue)

    def _pod_changed(self, old: PendingPod | None, new: PendingPod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid or new.deleting):
            share = None if old.owner is None else self._memory.known(old.owner)
            if share is not None:
                share.gone(old.uid)
        if new is not None and (old is None or old.uid != new.uid):
            self._came(new)

    def _came(self, pod: PendingPod) -> None:
        """A new pod shows whether admission has done its part; not while what is to be done is changing."""
        share = None if pod.owner is None else self._memory.known(pod.owner)
        if share is None or not self._snapshot.known:
            return
        monotonic = self._clock.monotonic()
        differs = difference(pod.traits, self._snapshot.exclusion(pod))
        settled = not self._snapshot.settles_in((pod,), monotonic)
        if share.came(differs is None if settled else None, monotonic) and differs is not None:
            self._report.without_effect(pod, differs, share.futile)

    def _settle(self, group: str | None) -> None:
        self._snapshot.changed(self._clock.monotonic(), group)
        for owner in self._snapshot.owners.all():
            self.controller.queue.add_after(owner, SETTLE)

    def _owners_of_claim(self, old: ClaimFacts | None, new: ClaimFacts | None) -> Iterable[OwnerKey]:
        claim = new or old
        assert claim is not None
        owners = self._snapshot.owners
        return [
            owner
            for owner in owners.of_namespace(claim.namespace)
            if any(claim.name in pod.traits.claims for pod in owners.pods(owner))
        ]

    def _everything(self) -> Iterable[OwnerKey]:
        self._memory.sweep(self._clock.monotonic())
        return self._snapshot.owners.all()

    # --- looks ---------------------------------------------------------------------------------------------------

    async def reconcile(self, owner: OwnerKey) -> Again | None:
        """Looks at one owner's waiting pods. Raises what its deletion raised."""
        if not self._snapshot.known:
            return Again(_UNTIL_KNOWN)
        plan = self._plan(owner)
        if plan.delete is not None and self._act is not None:
            await asyncio.sleep(max(0.0, self._next_at - self._clock.monotonic()))
            plan = self._plan(owner)
        self._report.looked(owner, plan, dry_run=self._act is None)
        if plan.delete is None or self._act is None:
            return None if plan.look_again_in is None else Again(plan.look_again_in)
        await self._delete(owner, plan.delete, self._act)
        return Again(CONFIRM_WITHIN)

    def _plan(self, owner: OwnerKey) -> Plan:
        monotonic = self._clock.monotonic()
        return decide(self._snapshot.owner(owner, self._memory.history(owner, monotonic), monotonic))

    async def _delete(self, owner: OwnerKey, deletion: Deletion, act: Act) -> None:
        share = self._memory.of(owner)
        # Before the answer: the pod's end, and its successor, may be seen ahead of it.
        share.asking(deletion.pod.uid, self._clock.monotonic())
        try:
            await act.delete(deletion.pod)
        except KubeError as error:
            if not may_be_done(error):
                share.refused()
            self._report.failed(deletion, error)
            raise
        finally:
            self._next_at = self._clock.monotonic() + PAUSE
        self._report.deleted(owner, deletion)


def _owners_of_pod(old: PendingPod | None, new: PendingPod | None) -> Iterable[OwnerKey]:
    return {owner for pod in (old, new) if pod is not None and (owner := pod.owner) is not None}


def _name(old: NamespaceFacts | None, new: NamespaceFacts | None) -> str:
    found = new or old
    assert found is not None
    return found.name
