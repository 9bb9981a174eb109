"""Workers and tasks of every kind, as a leader knows them."""

from typing import Final

from reconciler.scaler.contract import Phase, Target, TaskRecord
from reconciler.scaler.dedicated.decide import Trouble, Verdict
from reconciler.scaler.dedicated.report import Seen
from reconciler.scaler.dedicated.snapshot import Worker
from reconciler.scaler.describe import WorkersNow
from reconciler.scaler.metrics import WorkerState
from reconciler.scaler.pods import WorkerSet
from reconciler.scaler.shared.conditions import Condition, Reason
from reconciler.scaler.shared.describe import describe
from reconciler.scaler.shared.facts import PodState, Pool, PoolPod, Rules
from reconciler.scaler.task import TaskId, TaskState

GIB: Final = 1 << 30


def task(engine: int) -> TaskId:
    return TaskId(1, 170, 139, engine)


def worker(engine: int, size: int) -> Worker:
    """A dedicated worker without a pod yet."""
    name = f"load-data-worker-{task(engine)}"
    return Worker(
        WorkerSet(
            namespace="tidb-serverless",
            name=name,
            uid=name,
            resource_version=1,
            created=0.0,
            generation=1,
            replicas=1,
            pool="dedicated",
            annotations={},
            deleting=False,
            service=name,
        ),
        task(engine),
        7,
        size,
        None,
    )


POOL: Final = Pool(
    replicas=3,
    pods=(PoolPod(0, running=3, reserved=1), PoolPod(1, ended=2, idle=42.0), PoolPod(2, state=PodState.STARTING)),
    waiting=(GIB,),
)
WORKERS: Final = WorkersNow(
    run=True,
    known=True,
    dedicated=(
        Seen(worker(0, 3 * GIB), Verdict(WorkerState.BUSY, "it runs a task")),
        Seen(
            worker(-1, 12 * GIB),
            Verdict(WorkerState.STARTING, "its pod is not ready yet", trouble=Trouble.NO_CAPACITY, look_again_in=30.0),
        ),
    ),
    shared=describe(POOL, Rules(), (Condition(Reason.TAIL_STUCK, "ordinal 2 has never run"),)),
    tasks=(
        TaskRecord(task(0), 7, Target.DEDICATED, "load-data-worker-1-170-139-0-0", Phase.RUNNING, 3 * GIB),
        TaskRecord(task(-1), 7, Target.DEDICATED, "", Phase.WAITING, 12 * GIB),
        TaskRecord(
            task(1),
            7,
            Target.SHARED,
            "ldw-shared-1",
            Phase.ENDED,
            GIB,
            TaskState(task(1), finished=True, progress=(1, 2, 3, 4, 5)),
        ),
    ),
)
