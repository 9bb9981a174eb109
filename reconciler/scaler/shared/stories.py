"""What people are told about the pool: what happened, why, and what to do."""

from dataclasses import dataclass

from ebbtide.counting import count
from ebbtide.kube.resources import PODS, STATEFUL_SETS
from reconciler.engine.events import Event, Regarding
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.shared.conditions import Condition
from reconciler.scaler.shared.decide import PoolSize
from reconciler.scaler.shared.repair import Replacement


@dataclass(frozen=True, slots=True)
class Subject:
    """The pool's StatefulSet; `uid` is "" while there is none."""

    namespace: str
    name: str
    uid: str


def condition(subject: Subject, found: Condition) -> Event:
    """A condition holds."""
    return Event(_pool(subject), "Warning", str(found.reason), "Scale", found.note)


def grown(subject: Subject, before: int, size: PoolSize) -> Event:
    note = f"Scaled from {before} to {count(size.target, 'pod')}: {size.why}."
    return Event(_pool(subject), "Normal", "PoolGrown", "Scale", note)


def shrunk(subject: Subject, before: int, after: int) -> Event:
    note = f"Scaled from {before} to {count(after, 'pod')}: those that went had been idle for long enough."
    return Event(_pool(subject), "Normal", "PoolShrunk", "Scale", note)


def changed_by_others(subject: Subject, before: int, after: int) -> Event:
    note = (
        f"Somebody else changed the number of pods from {before} to {after}. It is corrected where tasks or the "
        "settings ask for another; to keep it, pause scaling with the annotation ebbtide/paused."
    )
    return Event(_pool(subject), "Warning", "ReplicasChanged", "Scale", note)


def lost_tasks(pod: WorkerPod, tasks: int) -> Event:
    note = (
        f"Pod {pod.key} began anew and does not list {count(tasks, 'task')} of before. Their places are kept for a "
        "while, in case it finds them again."
    )
    return Event(_pod(pod), "Warning", "TasksLost", "Watch", note)


def replaced(replacement: Replacement) -> Event:
    note = f"Pod {replacement.pod.key} was deleted, to be made anew: {replacement.why}."
    return Event(_pod(replacement.pod), "Normal", "PoolPodReplaced", "Delete", note)


def not_replaced(replacement: Replacement) -> Event:
    note = (
        f"Pod {replacement.pod.key} should be made anew ({replacement.why}), but ebbtide may not delete pods in its "
        "namespace. Delete it by hand, or give that permission."
    )
    return Event(_pod(replacement.pod), "Warning", "PoolPodNotReplaced", "Delete", note)


def _pool(subject: Subject) -> Regarding:
    return Regarding(STATEFUL_SETS, subject.name, subject.uid, subject.namespace)


def _pod(pod: WorkerPod) -> Regarding:
    return Regarding(PODS, pod.name, pod.uid, pod.namespace)
