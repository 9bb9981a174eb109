"""What one process remembers of workers while it leads: clocks, promises, what was seen to run.

Instants are monotonic seconds. A new term knows nothing of what was before, so every clock begins anew with it and a
promise may be outstanding for as long as promises last: workers stay longer than they had to, never shorter.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from reconciler.scaler.dedicated.decide import Facts, Stage, Verdict
from reconciler.scaler.dedicated.snapshot import Worker
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.status.book import Answer
from reconciler.scaler.task import TaskId, TaskState

# Answers come once per refresh; one that is older than this many of them says nothing about now.
MISSED_ANSWERS: Final = 3


@dataclass(frozen=True, slots=True)
class Heard:
    """What the worker has said: its last answer, and since when questions fail (None: the last one did not)."""

    answer: Answer | None = None
    failing_since: float | None = None

    def of(self, pod: WorkerPod, now: float, valid_for: float) -> Answer | None:
        """The answer that speaks for the pod as it is now."""
        answer = self.answer
        if answer is None or self.failing_since is not None or answer.started != pod.started or not pod.started:
            return None
        return answer if now - answer.at <= valid_for else None


@dataclass(slots=True)
class Life:
    """One worker, by the UID of its set.

    `mine` is the last word about its own task, None for a task that is not listed; `ends_when_seen` says that the
    promise is over once the task is seen to have come.
    `container` is the life of the pod that `ready_at` and `empty_since` are about, `was_ready_at` when one before it
    was last ready. `asked_for_at` is when a client asked for the worker to be made, None once it has been told about.
    `service` is set once its Service is known to be there, `asked_at` is when it was last asked for a client that
    waits. `podless_since` is since when it has no pod, `had_pod` that there was one before, and `refused` why there is
    none now. `removed` means that its deletion was accepted, `in_doubt` is why one was sent that has not been answered;
    `cancelled` asks for one.
    """

    task: TaskId
    used_at: float
    promised_until: float
    ran: bool = False
    asked_for_at: float | None = None
    container: tuple[str, str] = ("", "")
    ready_at: float | None = None
    was_ready_at: float = 0.0
    empty_since: float | None = None
    moved: tuple[TaskState, ...] = ()
    progress_at: float = 0.0
    mine: TaskState | None = None
    ends_when_seen: bool = False
    ran_in: tuple[str, str] = ("", "")
    service: bool = False
    asked_at: float = float("-inf")
    podless_since: float | None = None
    had_pod: bool = False
    refused: str = ""
    removed: bool = False
    in_doubt: Verdict | None = None
    cancelled: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def usable(self) -> bool:
        """Whether a client may be sent there."""
        return not (self.removed or self.in_doubt is not None or self.cancelled)

    def use(self, now: float) -> None:
        """A client has asked for it."""
        self.used_at = max(self.used_at, now)

    def served_by(self, pod: WorkerPod, answer: Answer) -> bool:
        """Whether what a client needs beside a name is known to be there: Service, and an answer since it is ready."""
        same = self.container == (pod.uid, pod.started)
        return same and self.service and self.ready_at is not None and answer.at >= self.ready_at

    def promise(self, now: float, lasts: float) -> None:
        """A client is being sent to it.

        Its coming is seen only where it changes something: not where the task runs already, and not where another
        client may still be on its way.
        """
        self.use(now)
        self.ends_when_seen = now >= self.promised_until and not (self.mine is not None and self.mine.running)
        self.promised_until = now + lasts

    def observe(self, pod: WorkerPod | None, heard: Heard, now: float, valid_for: float) -> Facts:
        """Takes what is known of the worker now, and gives the facts to decide by."""
        self._see_pod(pod, now)
        answer = None if pod is None else heard.of(pod, now, valid_for)
        if answer is None:
            # What nobody has looked at does not count as idle time.
            self.empty_since = None
        else:
            self._see_tasks(answer, now)
        stage = self._stage(pod)
        return Facts(
            stage=stage,
            used_at=self.used_at if stage in (Stage.READY, Stage.LOST) else max(self.used_at, self.was_ready_at),
            promised_until=self.promised_until,
            cancelled=self.cancelled,
            ran=self.ran,
            known=answer is not None,
            running=answer is not None and self.empty_since is None,
            progress_at=self.progress_at,
            empty_since=self.empty_since,
            failing_since=heard.failing_since,
            unschedulable="" if pod is None else pod.unschedulable,
            refused=self.refused,
        )

    def _see_pod(self, pod: WorkerPod | None, now: float) -> None:
        container = ("", "") if pod is None else (pod.uid, pod.started)
        if container != self.container:
            if self.ready_at is not None:
                self.was_ready_at = now
            self.container, self.ready_at, self.empty_since = container, None, None
        if pod is None:
            self.podless_since = now if self.podless_since is None else self.podless_since
            return
        self.had_pod, self.podless_since, self.refused = True, None, ""
        if pod.ready:
            self.ready_at = now if self.ready_at is None else self.ready_at

    def _see_tasks(self, answer: Answer, now: float) -> None:
        running = tuple(state for state in answer.states if state.running)
        before = self.mine
        self._see_own_task(answer, now)
        if self.mine is not None and self.mine != before:
            # Whatever it is by now: it has been there since the last answer.
            self.empty_since = None
        if running:
            self.empty_since, self.ran, self.ran_in = None, True, self.container
            if running != self.moved:
                self.moved, self.progress_at = running, answer.at
            return
        self.moved = ()
        self.empty_since = answer.at if self.empty_since is None else self.empty_since
        # An end is known where the task is listed as ended, or is gone from the list of the same process that ran it.
        if self.ran_in == self.container or self.mine is not None:
            self.ran = False

    def _see_own_task(self, answer: Answer, now: float) -> None:
        """The promise ends with the task's coming: it is listed and was not, or runs and did not."""
        before = self.mine
        self.mine = next((state for state in answer.states if state.task == self.task), None)
        if self.ends_when_seen and self.mine is not None and (before is None or self.mine.running != before.running):
            self.promised_until = min(self.promised_until, now)

    def _stage(self, pod: WorkerPod | None) -> Stage:
        if pod is None:
            return Stage.ABSENT
        if pod.ready:
            return Stage.READY
        return Stage.STARTING if self.ready_at is None else Stage.LOST


class Lives:
    """All workers'. `promises_last` seconds a promise is taken to be outstanding for a worker that is found."""

    def __init__(self, promises_last: float) -> None:
        self._promises_last = promises_last
        self._lives: dict[str, Life] = {}

    def begin(self) -> None:
        """A new term."""
        self._lives.clear()

    def made(self, uid: str, task: TaskId, now: float, asked_for_at: float) -> Life:
        """A worker that this process has just made: nobody can have been sent there."""
        life = self._lives[uid] = Life(task, used_at=asked_for_at, promised_until=now, asked_for_at=asked_for_at)
        return life

    def of(self, worker: Worker, now: float) -> Life:
        """A worker's; one that is met for the first time may have been promised a moment ago."""
        uid = worker.set.uid
        life = self._lives.get(uid)
        if life is None:
            life = self._lives[uid] = Life(worker.task, now, now + self._promises_last, ran=worker.ran)
        return life

    def known(self, uid: str) -> Life | None:
        return self._lives.get(uid)

    def end(self, uid: str) -> None:
        """The set has gone."""
        life = self._lives.pop(uid, None)
        if life is not None:
            life.removed = True
            life.gone.set()
