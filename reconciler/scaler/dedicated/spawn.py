"""From a client that waits to a worker that it can be sent to.

Each step finds out by itself what the steps before it have left: the set, its Service, a ready pod, a good answer. So a
start that was cut off anywhere goes on where it stands, in this process or in the next one.
"""

from typing import Final

from ebbtide.kube.errors import AlreadyExists, Forbidden, KubeError, NotLeading, TooManyRequests
from reconciler.engine.controller import Again
from reconciler.engine.verdict import may_be_done, words
from reconciler.scaler.contract import Place, Target, Unavailable
from reconciler.scaler.dedicated.act import Act, NameTakenError
from reconciler.scaler.dedicated.basis import Basis
from reconciler.scaler.dedicated.decide import SHORTEST, refusal_of
from reconciler.scaler.dedicated.memory import Life
from reconciler.scaler.dedicated.objects import Plan, stateful_set
from reconciler.scaler.dedicated.snapshot import Worker, read
from reconciler.scaler.dedicated.wants import Want
from reconciler.scaler.pods import WorkerPod, WorkerSet
from reconciler.scaler.refusals import is_of_quota
from reconciler.scaler.status.book import StatusUnknown
from reconciler.scaler.template import UnusableTemplateError

# A pod that is Ready and does not answer well yet is asked again this soon, while somebody waits.
_ASK_AGAIN: Final = 1.0
# Our copy shows a new set, or the end of an old one, within moments; this is for a watch that hangs.
_UNTIL_SEEN: Final = 1.0


class Spawn:
    """Makes workers and hands them out."""

    def __init__(self, basis: Basis, act: Act) -> None:
        self._basis = basis
        self._act = act

    # --- the objects ---------------------------------------------------------------------------------------------

    async def create(self, name: str, want: Want) -> Again | None:
        """The set, where there is none. What goes wrong is told to who waits, and raised if it may pass by itself."""
        basis = self._basis
        try:
            basis.admission.admit(name)
            made = await self._made(name, want)
        except Unavailable as refused:
            self.refuse(name, want, refused)
            return None
        except AlreadyExists:
            return await self._join(name, want)
        except UnusableTemplateError as error:
            basis.admission.give_back(name)
            self.refuse(name, want, Unavailable(str(error), code="TemplateUnusable", retry_after=_LATER))
            return None
        except KubeError as error:
            if not may_be_done(error):
                basis.admission.give_back(name)
            self.refuse(name, want, unavailable(error, "its worker cannot be created"))
            raise
        life = basis.lives.made(made.uid, want.arrival.task, basis.now, want.since)
        life.cancelled = want.cancelled
        basis.report.created(made, want.arrival)
        await self.service(made, life, want)
        return Again(_UNTIL_SEEN)

    async def _made(self, name: str, want: Want) -> WorkerSet:
        basis = self._basis
        template = await self._act.template()
        plan = Plan(name, basis.settings.name, want.arrival, basis.sizes.of(want.arrival.size))
        return await self._act.create(stateful_set(template, plan, basis.cells))

    async def _join(self, name: str, want: Want) -> Again | None:
        """A set of that name is there, which our copy does not show yet, or which is none of ours."""
        basis = self._basis
        found = await self._act.set_now(name)
        if found is None:
            basis.admission.give_back(name)
            return Again(_ASK_AGAIN)
        worker = read(found, None)
        if not isinstance(worker, Worker) or worker.task != want.arrival.task:
            basis.admission.give_back(name)
            taken = f"StatefulSet {found.key} is not that of its worker"
            self.refuse(name, want, Unavailable(taken, code="NameTaken", retry_after=_LATER))
        return Again(_UNTIL_SEEN)

    async def settle(self, name: str) -> Again | None:
        """Finds out what became of a creation that nobody waits for any more."""
        if await self._act.set_now(name) is None:
            self._basis.admission.give_back(name)
            return None
        return Again(_UNTIL_SEEN)

    async def service(self, owner: WorkerSet, life: Life, want: Want | None) -> bool:
        """Whether the set has its Service now; one of an earlier set of that name has to go first."""
        if life.service:
            return True
        try:
            life.service = await self._act.ensure_service(owner)
        except (KubeError, NameTakenError) as error:
            if want is not None:
                self.refuse(owner.name, want, unavailable(error, "the Service of its worker cannot be created"))
            if isinstance(error, KubeError):
                raise
        return life.service

    # --- the client ----------------------------------------------------------------------------------------------

    async def serve(self, worker: Worker, life: Life, want: Want) -> Again | None:
        """Sends the client to a worker that is ready; else says when to look again."""
        basis, pod = self._basis, worker.pod
        if not life.service:
            return Again(_UNTIL_SEEN)
        if pod is None and life.refused:
            self._send_away(worker, life, want)
            return None
        if pod is None or not pod.ready:
            return Again(max(want.deadline - basis.now, SHORTEST))
        if not self._answers(worker, life, pod) and not await self._ask(worker, life, pod):
            return Again(max(life.asked_at + _ASK_AGAIN - basis.now, SHORTEST))
        if not pod.busy:
            await self._act.mark_busy(pod, busy=True)
        await basis.names.wait(pod, basis.addresses.host_of_service(worker.set.namespace, worker.set.service))
        return self._send(worker, life, pod)

    def _answers(self, worker: Worker, life: Life, pod: WorkerPod) -> bool:
        """Whether the pod has given a good answer since it has been ready, and none that failed after it."""
        answer = self._basis.heard(worker).of(pod, self._basis.now, self._basis.valid_for)
        return answer is not None and life.ready_at is not None and answer.at >= life.ready_at

    async def _ask(self, worker: Worker, life: Life, pod: WorkerPod) -> bool:
        """Whether the pod gives a good answer now. Every answer leads to another look, which must not ask at once."""
        if self._basis.now < life.asked_at + _ASK_AGAIN:
            return False
        life.asked_at = self._basis.now
        try:
            await self._basis.book.ask_now(pod, {worker.cluster})
        except StatusUnknown:
            return False
        return True

    def _send(self, worker: Worker, life: Life, pod: WorkerPod) -> Again | None:
        """Promises the worker, if it is still the one that was looked at; nothing is awaited from here on."""
        basis, name = self._basis, worker.set.name
        live = basis.snapshot.worker(name)
        if not isinstance(live, Worker) or live.set.uid != worker.set.uid or live.set.deleting or not life.usable:
            return Again(_ASK_AGAIN)
        if live.pod is None or not live.pod.ready or (live.pod.uid, live.pod.started) != (pod.uid, pod.started):
            return Again(_ASK_AGAIN)
        now = basis.now
        life.promise(now, basis.settings.reservation_seconds)
        basis.report.ready(worker, None if life.asked_for_at is None else now - life.asked_for_at)
        life.asked_for_at = None
        address = basis.addresses.dedicated(live.pod, live.set.service)
        basis.wants.answer(name, Place(worker.task, worker.cluster, Target.DEDICATED, address))
        return Again(0.0)

    def _send_away(self, worker: Worker, life: Life, want: Want) -> None:
        """Its pod cannot be made for now: the client is told why rather than kept waiting, and joins when it comes."""
        trouble = refusal_of(life.refused)
        why = Unavailable(f"its worker's pod cannot be made: {life.refused}", code=str(trouble), retry_after=_LATER)
        self._basis.report.not_ready(want.arrival, why)
        self._basis.wants.answer(worker.set.name, why)

    def refuse(self, name: str, want: Want, why: Unavailable) -> None:
        """Sends who waits away for now."""
        self._basis.report.refused(want.arrival, why)
        self._basis.wants.answer(name, why)


# Seconds after which a client had better come again when somebody has to mend something first.
_LATER: Final = 10


def unavailable(error: KubeError | NameTakenError, what: str) -> Unavailable:
    """What a client is told of a request that failed."""
    said = words(error)
    match error:
        case NotLeading():
            return Unavailable("this replica does not lead any more", code="NotLeading")
        case Forbidden() if is_of_quota(said):
            return Unavailable(f"{what}: {said}", code="QuotaExceeded", retry_after=_LATER)
        case Forbidden() | NameTakenError():
            return Unavailable(f"{what}: {said}", code="WorkerNotCreated", retry_after=_LATER)
        case TooManyRequests(retry_after=float() | int() as after):
            return Unavailable(f"{what}: {said}", code="WorkerNotCreated", retry_after=round(after))
        case _:
            return Unavailable(f"{what}: {said}", code="WorkerNotCreated")
