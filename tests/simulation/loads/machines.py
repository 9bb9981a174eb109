"""What happens to workers, their pods and their nodes, one random event at a time.

Each method returns what happened in words, "" when there is no place for it now.
"""

from functools import partial
from typing import Final

from ebbtide import vocabulary
from ebbtide.sim import objects
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import NODES, PODS, STATEFUL_SETS
from ebbtide.sim.storage import Write
from tests.doubles.worker import Worker
from tests.simulation.loads.course import POOL, Course
from tests.simulation.workers import NAMESPACE, large

# A worker is in a mood for less than a promise, and than the time for which a new leader waits for a local pod.
LONGEST_MOOD: Final = 45.0
_SOMEBODY: Final = Write("somebody-else")
_KUBELET: Final = Write("kubelet", "status")


class Machines:
    """Workers and what they run on."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._nodes = 0
        self._lives = 0

    def _worker(self) -> tuple[str, Worker] | None:
        names = sorted(self._course.site.floor.workers)
        if not names:
            return None
        name = self._course.rng.choice(names)
        return name, self._course.site.floor.workers[name]

    def mood(self) -> str:
        chosen = self._worker()
        if chosen is None:
            return ""
        (name, worker), seconds = chosen, self._course.rng.uniform(1.0, LONGEST_MOOD)
        mood = self._course.rng.choice(["silent", "refusing", "full", "slow"])
        match mood:
            case "silent":
                worker.silent = True
            case "refusing":
                worker.refusing = self._course.rng.choice([500, 503])
            case "full":
                worker.full = True
            case _:
                worker.delay = self._course.rng.choice([1.0, 5.0, 15.0])
        self._course.after(seconds, partial(cheer, worker))
        return f"{name} is {mood} for {seconds:.0f} s"

    def restart(self) -> str:
        """Its container begins anew in its pod. Local pods do not restore: that is the one exception of the page."""
        chosen = self._worker()
        pod = None if chosen is None else self._course.stage.storage.peek(PODS, chosen[0], NAMESPACE)
        if chosen is None or pod is None:
            return ""
        name, worker = chosen
        keeps = not name.startswith("tikv-api") and self._course.rng.random() < 0.5
        self._lives += 1
        if not keeps:
            self._course.laws.forgets(worker)
        worker.restart(keeps=keeps)
        statuses = [
            {**status, "containerID": f"containerd://again-{self._lives}"}
            for status in pod.body["status"]["containerStatuses"]
        ]
        change = {"status": {"containerStatuses": statuses}}
        self._course.stage.storage.modify(PODS, name, NAMESPACE, lambda body: objects.changed(body, change), _KUBELET)
        return f"{name} begins anew {'with' if keeps else 'without'} its tasks"

    def lose_node(self) -> str:
        """Another comes in its zone, or volumes would keep pods from starting for ever."""
        name = self._course.rng.choice(sorted(node.name for node in self._course.stage.storage.scan(NODES)))
        zone = self._course.stage.node(name)["metadata"]["labels"][vocabulary.ZONE_LABEL]
        self._nodes += 1
        self._course.stage.cluster.create(large(objects.node(f"new{self._nodes}", zone=zone)))
        self._course.stage.delete(name)
        return f"node {name} is lost"

    def lose_pod(self) -> str:
        chosen = self._worker()
        if chosen is None:
            return ""
        self._course.stage.storage.delete(PODS, chosen[0], NAMESPACE, Deletion(grace_seconds=0))
        return f"pod {chosen[0]} is deleted by somebody"

    def resize_pool(self) -> str:
        replicas = self._course.rng.randint(0, 3)
        if self._course.stage.storage.peek(STATEFUL_SETS, POOL, NAMESPACE) is None:
            return ""
        self._course.laws.by_hand = True
        change = {"spec": {"replicas": replicas}}
        self._course.stage.storage.modify(
            STATEFUL_SETS, POOL, NAMESPACE, lambda b: objects.changed(b, change), _SOMEBODY
        )
        self._course.laws.by_hand = False
        return f"somebody resizes the pool to {replicas}"


def cheer(worker: Worker) -> None:
    """Its mood passes."""
    worker.silent, worker.refusing, worker.full, worker.delay = False, 0, False, 0.0
