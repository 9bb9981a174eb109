"""What front, desk and the three placements say to each other."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from ebbtide.errors import EbbtideError
from reconciler.scaler.task import TaskId, TaskState

# Ten times as many as there may be dedicated workers by default may come at once, and some more. So many requests may
# wait at the front, and so many new tasks at the desk, which those of clients that have hung up do not leave at once.
MOST_AT_ONCE: Final = 16_384


class Target(StrEnum):
    """Where a task runs; the values are those of the metric label `target`."""

    LOCAL = "local"
    SHARED = "shared"
    DEDICATED = "dedicated"


class Phase(StrEnum):
    """How far a task is; the values are those of the metric label `state`."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Arrival:
    """An init request that has been read and found good. `size` in bytes, 0 when the client named none."""

    task: TaskId
    cluster: int
    size: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task is. `address` is `<scheme>://<host>:<port>` without a path.

    `ready` says whether its worker can be sent requests now; `reason` is why not, in words.
    """

    task: TaskId
    cluster: int
    target: Target
    address: str
    ready: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as lists, status and metrics show it. `worker` is the pod's name ("" for none yet); `size` in bytes.

    `seen` is what the worker last said of it, None when it has not (yet).
    """

    task: TaskId
    cluster: int
    target: Target
    worker: str
    phase: Phase
    size: int = 0
    seen: TaskState | None = None


class PlacementError(EbbtideError):
    """A task gets no place; the message is for the client and its operator.

    Refused        400: will not work however often it is tried
    Unavailable    503: later it may
    """


class Refused(PlacementError):  # noqa: N818 - an answer, named as in the protocol
    """400."""


class Unavailable(PlacementError):  # noqa: N818 - an answer, named as in the protocol
    """503. `retry_after` in whole seconds, at least 1; `code` is an UpperCamelCase reason for events and state."""

    def __init__(self, message: str, *, code: str = "NotReady", retry_after: int = 3) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = max(1, retry_after)


def too_many(why: str) -> Unavailable:
    """So much is under way that more of it would only cost memory."""
    return Unavailable(why, code="TooMany", retry_after=10)


class Placement(Protocol):
    """One of local, dedicated, shared.

    All are level-triggered: what they know is read from the cluster and from workers, and `find` answers from memory,
    also while this process does not lead any more.
    """

    target: Target

    @property
    def discovered(self) -> str:
        """Empty once all that was placed before is known; until then what is still to be read, in words."""
        ...

    def find(self, task: TaskId) -> Place | None:
        """Where the task is, None for a task that is not here."""
        ...

    def wanted(self, task: TaskId) -> None:
        """The task's client has asked for it while its worker was not ready: it is there, and will ask again."""
        ...

    def records(self) -> Iterable[TaskRecord]:
        """All tasks that are here."""
        ...

    async def place(self, arrival: Arrival) -> Place:
        """Gives the task a place, or joins the work that is under way for it, and waits until its worker is ready.

        Called once at a time per task. Cancellation only ends the waiting. Raises Refused, Unavailable.
        """
        ...

    async def cancel(self, task: TaskId, *, remove: bool) -> bool:
        """Tells the worker that the task is cancelled; False for a task that is not here.

        With `remove` a worker of the task's own goes at once, also when it does not answer. Raises Unavailable.
        """
        ...


class Desk(Protocol):
    """What the front asks while it answers a request. Synchronous answers come from memory."""

    def unknown(self, cluster: int = 0) -> str:
        """Why tasks of that cluster cannot be told from unknown ones yet (discovery is not over), "" when they can.

        A cluster that was never heard of before is asked for from now on: workers list tasks by cluster only.
        """
        ...

    def find(self, task: TaskId, cluster: int) -> Place | None:
        """Where the task is, for its client; None for one that is unknown or belongs to another cluster.

        A worker that is not ready is kept for a client that goes on asking.
        """
        ...

    def records(self, cluster: int) -> Iterable[TaskRecord]:
        """All tasks of that cluster."""
        ...

    async def place(self, arrival: Arrival) -> Place:
        """One decision for a task, whoever asks for it meanwhile; waits for the worker.

        Cancellation ends the waiting, not the work. Raises Refused, Unavailable.
        """
        ...

    async def cancel(self, task: TaskId, cluster: int) -> bool:
        """False for a task that is unknown. Raises Unavailable when its worker does not answer."""
        ...

    async def cancel_all(self, prefix: str, cluster: int) -> int:
        """Bulk delete; returns how many tasks it concerned. Raises Refused for a prefix that is none, Unavailable."""
        ...
