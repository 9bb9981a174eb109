"""What remains of tasks: objects, promises, what the leader knows, and series."""

from collections.abc import Iterator, Sequence

from ebbtide.sim.kinds import CONFIG_MAPS
from tests.simulation.loads.course import POOL, Course
from tests.simulation.loads.imports import Import
from tests.simulation.stage import Replica
from tests.simulation.workers import NAMESPACE


def remains(course: Course, imports: Sequence[Import], leaders: Sequence[Replica]) -> list[str]:
    """Each of it in words; that not one replica leads, too."""
    left = [] if len(leaders) == 1 else [f"leaders {[leader.name for leader in leaders]}"]
    series = (what for each in leaders for what in _series(each, imports))
    return [*left, *_objects(course), *_promises(course), *series]


def _objects(course: Course) -> Iterator[str]:
    """All but the pool itself, as large as it has to be."""
    rules = course.stage.settings.worker_scaler
    pods = [f"-{POOL}-{ordinal}" for ordinal in range(rules.shared_min_replicas if rules.shared_pool_enabled else 0)]
    for name in course.site.leftovers():
        if name != POOL and not any(name.endswith(pod) for pod in pods):
            yield name


def _promises(course: Course) -> Iterator[str]:
    ledger = course.stage.storage.peek(CONFIG_MAPS, f"{POOL}-ledger", NAMESPACE)
    for key, line in ({} if ledger is None else ledger.body.get("data") or {}).items():
        if key.isdigit():
            yield f"promise {line}"


def _series(replica: Replica, imports: Sequence[Import]) -> Iterator[str]:
    samples = [sample for metric in replica.program.registry.collect() for sample in metric.samples]
    for sample in samples:
        words = " ".join(sample.labels.values())
        named = any(each.task in words for each in imports)
        if named or (sample.name == "worker_scaler_tasks" and sample.value):
            yield f"series {sample.name} {words} {sample.value}"
