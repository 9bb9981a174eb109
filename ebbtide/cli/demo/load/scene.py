"""How a load stands at one moment: small frozen values that a picture can be drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ebbtide.cli.demo.load.tables import Step, Table


class Kind(Enum):
    """Whose pod a worker is, in the order in which they are shown; the value is a word for it."""

    LOCAL = "local"
    SHARED = "shared"
    OWN = "own"


class Doing(Enum):
    """What a worker does; the value is a word for it."""

    WAITING = "Pending"
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    IDLE = "idle"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class TableView:
    """`sent` is the part that has been sent, 0 to 1; `worker` the pod that its client was sent to, "" for none yet.

    `refused` counts the answers that told its client to come again, `asked` is the seconds since it first asked for a
    place: until it got one, or until now.
    """

    table: Table
    step: Step
    sent: float = 0.0
    worker: str = ""
    refused: int = 0
    asked: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerView:
    """`table` is what a worker of its own was made for, "" for the others; `running` counts tasks."""

    name: str
    kind: Kind
    zone: str
    doing: Doing
    running: int = 0
    table: str = ""


@dataclass(frozen=True, slots=True)
class PoolView:
    """Sizes of the shared pool in pods, the largest too; `full` (U) and `most` (C) are tasks of one pod."""

    replicas: int
    desired: int
    usable: int
    full: int
    most: int
    largest: int


@dataclass(frozen=True, slots=True)
class LoadScene:
    """Everything about tables and workers. `answers` counts what the front has said to clients, by status.

    `left` names what is there for workers: sets, Services, volumes. `pool` is None where there is none by the rules.
    """

    tables: tuple[TableView, ...] = ()
    workers: tuple[WorkerView, ...] = ()
    pool: PoolView | None = None
    answers: Mapping[int, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()

    def count(self, step: Step) -> int:
        return sum(view.step is step for view in self.tables)

    def worker(self, name: str) -> WorkerView | None:
        return next((worker for worker in self.workers if worker.name == name), None)
