"""What events of dedicated workers say."""

from reconciler.engine.events import Story
from reconciler.scaler.dedicated.decide import Trouble
from reconciler.scaler.metrics import Cleanup
from reconciler.scaler.task import TaskId


def created(task: TaskId, size: int) -> Story:
    return Story("Normal", "WorkerCreated", "Create", f"For task {task} with {size} bytes of data.")


def removed(task: TaskId, why: Cleanup, words: str) -> Story:
    return Story("Normal", "WorkerRemoved", "Delete", f"Worker of task {task} ({why}): {words}.")


def not_created(task: TaskId, words: str) -> Story:
    return Story("Warning", "WorkerNotCreated", "Create", f"No worker for task {task}: {words}. Clients try again.")


def template_unusable(words: str) -> Story:
    return Story("Warning", "TemplateUnusable", "Create", f"No worker can be made: {words}. Clients try again.")


def limit_reached(words: str) -> Story:
    return Story("Warning", "LimitReached", "Create", f"No further worker is made: {words}. Clients try again.")


def quota_exceeded(words: str) -> Story:
    return Story("Warning", "QuotaExceeded", "Create", f"{words}. Clients try again.")


def not_recognised(words: str) -> Story:
    return Story(
        "Warning", "WorkerNotRecognised", "Look", f"It carries the label of a worker, but {words}. It is left alone."
    )


def troubled(trouble: Trouble, words: str) -> Story:
    """Why a worker does not start, or is not removed; `words` may be a sentence of the scheduler's."""
    words = words.removesuffix(".")
    match trouble:
        case Trouble.STATUS_UNKNOWN:
            note = f"The worker is kept, whatever it is doing: {words}."
            return Story("Warning", "StatusUnknown", "Ask", note)
        case Trouble.NO_CAPACITY:
            return Story("Warning", "NoCapacity", "Start", f"The worker's pod finds no node: {words}.")
        case Trouble.ZONAL_VOLUME_BLOCKED:
            note = f"The worker's pod can only stand where its volumes are: {words}."
            return Story("Warning", "ZonalVolumeBlocked", "Start", note)
        case Trouble.QUOTA_EXCEEDED:
            return Story("Warning", "QuotaExceeded", "Start", f"The worker does not start: {words}. Clients try again.")
        case Trouble.POD_REFUSED:
            return Story("Warning", "PodRefused", "Start", f"The worker does not start: {words}. Clients try again.")
