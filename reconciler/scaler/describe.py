"""The scaler in the state document: camelCase keys, sizes in bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reconciler.scaler.contract import TaskRecord
from reconciler.scaler.dedicated.placement import Dedicated
from reconciler.scaler.dedicated.report import Seen
from reconciler.scaler.desk import TaskDesk
from reconciler.scaler.shared.controller import Shared
from reconciler.scaler.task import write_states

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WorkersNow:
    """What a process says of workers and tasks at one moment; `document` may be asked for in a thread.

    `run` is the setting. `known` is set where the process leads; without it nothing else says anything. `unread` is
    what has still to be read before unknown tasks can be told from known ones, in words. `shared` is None without a
    pool.
    """

    run: bool = False
    known: bool = False
    unread: str = ""
    dedicated: Sequence[Seen] = ()
    shared: Document | None = None
    tasks: Sequence[TaskRecord] = ()

    def document(self) -> Document:
        """`workers` of the state."""
        return {
            "run": self.run,
            "known": self.known,
            "unread": self.unread,
            "dedicated": [_worker(seen) for seen in self.dedicated],
            "shared": self.shared,
            "tasks": [_task(record) for record in sorted(self.tasks, key=lambda record: record.task)],
        }


NO_WORKERS: Final = WorkersNow()


def describer(desk: TaskDesk, dedicated: Dedicated, shared: Shared) -> Callable[[], WorkersNow]:
    """Says how things stand now."""

    def describe() -> WorkersNow:
        if not desk.running:
            return WorkersNow(run=True)
        return WorkersNow(
            run=True,
            known=True,
            unread=desk.unknown(),
            dedicated=tuple(dedicated.workers),
            shared=shared.describe(),
            tasks=tuple(desk.everything()),
        )

    return describe


def _worker(seen: Seen) -> Document:
    worker, verdict = seen.worker, seen.verdict
    return {
        "name": worker.set.name,
        "task": str(worker.task),
        "cluster": worker.cluster,
        "dataSize": worker.size,
        "pod": worker.pod.name if worker.pod is not None else None,
        "state": str(verdict.state),
        "reason": verdict.reason,
        "trouble": None if verdict.trouble is None else str(verdict.trouble),
        "lookAgainInSeconds": None if verdict.look_again_in is None else round(verdict.look_again_in, 1),
    }


def _task(record: TaskRecord) -> Document:
    return {
        "task": str(record.task),
        "cluster": record.cluster,
        "dataSize": record.size,
        "pool": str(record.target),
        "worker": record.worker or None,
        "state": str(record.phase),
        "reported": None if record.seen is None else _reported(record),
    }


def _reported(record: TaskRecord) -> Document:
    assert record.seen is not None
    [entry] = write_states([record.seen])
    words = {key: value for key, value in entry.items() if key != "task-id"}
    return {_camel(key): value for key, value in words.items()}


def _camel(key: str) -> str:
    first, *others = key.split("-")
    return first + "".join(each.capitalize() for each in others)
