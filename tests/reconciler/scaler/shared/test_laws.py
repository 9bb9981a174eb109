"""Laws of the pool over random histories: tasks come and go while workers, nodes, processes and people misbehave.

A client comes again until it has a place, is slow to begin there, runs for a while, and is sent to the same place
whenever it asks again. The laws are looked at in the moment of every write.
"""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from random import Random
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, example, given
from hypothesis import settings as options
from hypothesis import strategies as st

from ebbtide import vocabulary
from ebbtide.sim import objects
from ebbtide.sim.faults import Answer, Drop, When
from ebbtide.sim.kinds import NODES, STATEFUL_SETS
from ebbtide.sim.stored import Event, Object
from ebbtide.sim.time import simulate
from ebbtide.vocabulary import PAUSED_ANNOTATION as PAUSED
from reconciler.scaler.contract import Place, PlacementError, Refused
from tests.doubles.worker import Worker
from tests.reconciler.scaler.shared.basin import POOL, Basin, pod_of, populated, settings, task
from tests.simulation.wiretap import Hook, Request

RESERVATION = 60.0
IDLE = 60.0
STARTS = 60.0
RULES: Final[dict[str, Any]] = {
    "shared_scale_up_tasks_per_pod": 4,
    "shared_max_tasks_per_pod": 6,
    "shared_idle_pod_expire_sec": IDLE,
    "reservation_seconds": RESERVATION,
    "start_timeout": STARTS,
    "refresh_interval": 5,
    "status_timeout": 2,
}


class Bounds(NamedTuple):
    """Of the pool's size, and whether a full one refuses. Two pods are full at twelve tasks, which is one burst."""

    least: int = 0
    most: int = 6
    hard: bool = False

    @property
    def rules(self) -> dict[str, Any]:
        bounds = {"shared_min_replicas": self.least, "shared_max_replicas": self.most, "shared_hard_cap": self.hard}
        return {**RULES, **bounds}


BOUNDS: Final = (
    Bounds(),
    Bounds(),
    Bounds(least=2),
    Bounds(most=2),
    Bounds(most=2, hard=True),
    Bounds(2, 2, hard=True),
)
# Volumes of each pod: that of the template, and one for its one worker thread.
CLAIMS: Final = 2
# All who still wait have a place by then, and their tasks have ended; seconds.
SERVED: Final = 7200.0
# Somebody may see later than the cluster has it that a pod is not Ready; seconds.
_NOTICED: Final = 1.0
_OFTEN: Final = 0.25
ACTIONS = (
    "arrive",
    "arrive",
    "burst",
    "wait",
    "wait long",
    "silence",
    "hang",
    "restart pod",
    "restart pod, tasks kept",
    "kill",
    "kill at a write",
    "new leader",
    "pause",
    "go on",
    "block zone",
    "open zone",
    "no room",
    "room",
    "scale by hand",
    "lose node",
    "api fault",
    "lost answer",
    "init again",
)


class Life:
    """One history."""

    def __init__(self, basin: Basin, bounds: Bounds, seed: int) -> None:
        self.basin = basin
        self.bounds = bounds
        self.random = Random(seed)
        self.clients: list[asyncio.Task[None]] = []
        self.told: dict[int, str] = {}
        self.number = 0
        self.nodes = 0
        self.by_hand = False
        self.broken: list[str] = []
        self.reviving: asyncio.Task[None] | None = None
        self.busy_at: dict[Worker, float] = {}
        self.unready_at: dict[str, float] = {}
        self.eyes = asyncio.ensure_future(self._look())
        basin.storage.listen(self._set_changed, STATEFUL_SETS)
        basin.journal.hooks.append(Hook("DELETE", "/api/v1/namespaces/*/pods/*", self._pod_deleted, times=None))

    # --- the laws ----------------------------------------------------------------------------------------------

    def _set_changed(self, event: Event) -> None:
        if event.stored.name != POOL or self.by_hand or event.before is None or event.before.uid != event.stored.uid:
            return
        before, after = (int(stored.body["spec"]["replicas"]) for stored in (event.before, event.stored))
        if before == after:
            return
        if not self.bounds.least <= after <= max(before - 1, self.bounds.most):
            self.broken.append(f"law 3: {before} → {after}")
        if all(
            (stored.body["metadata"].get("annotations") or {}).get(PAUSED) for stored in (event.before, event.stored)
        ):
            self.broken.append(f"paused: {before} → {after}")
        for ordinal in range(after, before):
            self._must_be_free(f"{POOL}-{ordinal}", f"{before} → {after}")
            self._must_be_idle(f"{POOL}-{ordinal}", f"{before} → {after}")

    async def _look(self) -> None:
        """When workers last listed a task, and for how long pods have not been Ready, as it is behind everything."""
        while True:
            now = self.basin.time
            for worker in self.basin.workers.values():
                if worker.tasks or worker not in self.busy_at:
                    self.busy_at[worker] = now
            pods = self.basin.pods()
            for ordinal in range(self.bounds.most):
                name = f"{POOL}-{ordinal}"
                if name in pods and _ready(pods[name]):
                    self.unready_at.pop(name, None)
                else:
                    self.unready_at.setdefault(name, now)
            await asyncio.sleep(_OFTEN)

    def _must_be_idle(self, pod: str, why: str) -> None:
        """Law 4: it is Ready, lists nothing and has not for long enough."""
        now, worker = self.basin.time, self.basin.workers.get(pod)
        if now - self.unready_at.get(pod, now) > _NOTICED:
            self.broken.append(f"law 4: {pod} {why} although it is not Ready")
        if worker is None:
            self.broken.append(f"law 4: {pod} {why} although it has never run")
            return
        if worker.tasks:
            self.broken.append(f"law 4: {pod} {why} and lists {[str(state.task) for state in worker.tasks.values()]}")
        if now - self.busy_at[worker] < IDLE - _OFTEN:
            self.broken.append(f"law 4: {pod} {why}, idle for {now - self.busy_at[worker]} s")

    def _pod_deleted(self, request: Request) -> None:
        self._must_be_free(request.node, "deleted")

    def _must_be_free(self, pod: str, why: str) -> None:
        """Laws 1 and 5: nothing runs there, nothing is promised there, and its status can be read."""
        worker = self.basin.workers.get(pod)
        if worker is None:
            return
        running = [str(state.task) for state in worker.tasks.values() if state.running]
        if running:
            self.broken.append(f"law 1: {pod} {why} with {running}")
        if str(pod.rpartition("-")[2]) in {str(ordinal) for ordinal in self.basin.promises().values()}:
            self.broken.append(f"law 1: {pod} {why} with a promise")
        if worker.refusing or worker.silent:
            self.broken.append(f"law 5: {pod} {why} although its status is unknown")

    # --- what happens ------------------------------------------------------------------------------------------

    async def act(self, action: str) -> None:
        random = self.random
        happen: dict[str, Callable[[], object]] = {
            "arrive": lambda: self._arrive(1),
            "burst": lambda: self._arrive(random.randint(5, 15)),
            "wait": lambda: asyncio.sleep(random.uniform(0, 15)),
            "wait long": lambda: asyncio.sleep(random.uniform(30, 200)),
            "silence": lambda: self._mute(refusing=500),
            "hang": lambda: self._mute(refusing=0),
            "restart pod": lambda: self._restart(keeps=False),
            "restart pod, tasks kept": lambda: self._restart(keeps=True),
            "kill": self._kill,
            "kill at a write": self._kill_at_a_write,
            "pause": lambda: self._pause(paused=True),
            "go on": lambda: self._pause(paused=False),
            "block zone": lambda: self._block(blocked=True),
            "open zone": lambda: self._block(blocked=False),
            "no room": lambda: self._cordon(cordoned=True),
            "room": lambda: self._cordon(cordoned=False),
            "new leader": self._new_leader,
            "scale by hand": self._by_hand,
            "lose node": self._lose_node,
            "api fault": self._fault,
            "lost answer": self._lose_answer,
            "init again": self._again,
        }
        done = happen[action]()
        if isawaitable(done):
            await done

    def _arrive(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.clients.append(asyncio.ensure_future(self._client(self.number)))

    async def _client(self, number: int) -> None:
        place = await self._insist(number)
        self.told[number] = pod_of(place)
        await asyncio.sleep(self.random.uniform(0, 20))
        worker = self.basin.workers[pod_of(place)]
        worker.begin(str(task(number)))
        await asyncio.sleep(self.random.uniform(0, 300))
        if task(number) in worker.tasks:
            worker.finish(str(task(number)))
        await asyncio.sleep(self.random.uniform(0, 60))
        worker.lose(str(task(number)))
        self.told.pop(number, None)

    async def _insist(self, number: int) -> Place:
        """Nobody waits longer than a pod may take to start; whoever gets no place is told so, and comes again."""
        while True:
            process, began = self.basin.process, self.basin.time
            try:
                return await self.basin.place(number)
            except PlacementError as error:
                if isinstance(error, Refused):
                    self.broken.append(f"refused for good: {error}")
            finally:
                waited = self.basin.time - began
                if not process.killed and waited > STARTS + 1.0:
                    self.broken.append(f"a client of {process.name} has waited {waited} s")
            await asyncio.sleep(3)

    def _again(self) -> None:
        """A client that asks again is sent where its task is (law 2)."""
        running = [n for n, pod in self.told.items() if task(n) in self.basin.workers[pod].tasks]
        if running:
            number = self.random.choice(running)
            self.clients.append(asyncio.ensure_future(self._sent_again(number, self.told[number])))

    async def _sent_again(self, number: int, pod: str) -> None:
        """What comes next is not waited with: where its pod is gone, there may be room only later."""
        place = await self._insist(number)
        if task(number) in self.basin.workers[pod].tasks and pod_of(place) != pod:
            self.broken.append(f"law 2: {number} on {pod} is sent to {pod_of(place)}")

    def _mute(self, refusing: int) -> None:
        pods = sorted(self.basin.workers)
        if pods:
            worker, seconds = self.basin.workers[self.random.choice(pods)], self.random.uniform(1, 120)
            worker.refusing, worker.silent = refusing, not refusing
            self.clients.append(asyncio.ensure_future(self._speak_after(worker, seconds)))

    async def _speak_after(self, worker: Worker, seconds: float) -> None:
        await asyncio.sleep(seconds)
        worker.refusing, worker.silent = 0, False

    def _restart(self, *, keeps: bool) -> None:
        pods = [name for name, pod in self.basin.pods().items() if (pod.get("status") or {}).get("podIP")]
        if pods:
            name = self.random.choice(sorted(pods))
            self.number += 1
            running = {"running": {"startedAt": "2026-01-02T00:00:00Z"}}
            status = {"name": "app", "containerID": f"containerd://{self.number}", "state": running}
            self.basin.workers[name].restart(keeps=keeps)
            self.busy_at[self.basin.workers[name]] = self.basin.time
            self.basin.status(name, {"containerStatuses": [status]})

    async def _new_leader(self) -> None:
        """The old one has lost its lease, and its permit with it, before the next one begins."""
        old = self.basin.process
        old.leads = False
        self.basin.start(f"p{len(self.basin.processes)}")
        await asyncio.sleep(self.random.uniform(0, 5))
        await old.kill()

    async def _kill(self) -> None:
        await self.basin.process.kill()
        await asyncio.sleep(self.random.uniform(0, 3))
        self.basin.start(f"p{len(self.basin.processes)}")

    def _kill_at_a_write(self) -> None:
        """Of this process, before or after it is done; the next one begins a moment later."""
        process, left, answered = self.basin.process, [self.random.randrange(4)], self.random.random() < 0.5

        def count(request: Request) -> None:
            left[0] -= request.who == process.name
            if left[0] < 0 and not process.killed and process is self.basin.process:
                process.cut()
                self.reviving = asyncio.ensure_future(self._kill())

        for method in ("PATCH", "POST", "PUT", "DELETE"):
            self.basin.journal.hooks.append(Hook(method, "*", count, answered, times=None))

    def _pause(self, *, paused: bool) -> None:
        if self.basin.found(STATEFUL_SETS, POOL) is not None:
            words = {"annotations": {PAUSED: "true" if paused else None}}
            self.basin.patch(STATEFUL_SETS, POOL, {"metadata": words})

    def _block(self, *, blocked: bool) -> None:
        """The zone of half of the nodes; nodes that come later are in the other one."""
        taint = objects.taint(vocabulary.PREVENT_TAINT_KEY, "1767225600")
        for node in self.basin.storage.scan(NODES):
            if node.body["metadata"]["labels"][vocabulary.ZONE_LABEL] == "b":
                self.basin.patch(NODES, node.name, {"spec": {"taints": [taint] if blocked else None}})

    def _cordon(self, *, cordoned: bool) -> None:
        """No node takes a further pod, as it is where nothing is left to be bought."""
        for node in self.basin.storage.scan(NODES):
            self.basin.patch(NODES, node.name, {"spec": {"unschedulable": cordoned or None}})

    def _fault(self) -> None:
        fault, method = Answer(self.random.choice((500, 503, 429))), self.random.choice(("PATCH", "POST"))
        self.basin.cluster.faults.inject(fault, When(method, times=self.random.randint(1, 5)))

    def _lose_answer(self) -> None:
        self.basin.cluster.faults.inject(Drop(processed=True), When("PATCH", times=self.random.randint(1, 3)))

    def _by_hand(self) -> None:
        replicas = self.random.randint(0, self.bounds.most)
        if self.basin.found(STATEFUL_SETS, POOL) is not None:
            self.by_hand = True
            self.basin.patch(STATEFUL_SETS, POOL, {"spec": {"replicas": replicas}})
            self.by_hand = False

    def _lose_node(self) -> None:
        names = sorted(node.name for node in self.basin.storage.scan(NODES))
        self.nodes += 1
        self.basin.node(f"new{self.nodes}")
        self.basin.delete(NODES, self.random.choice(names))

    async def end(self) -> None:
        """All tasks end, and in time nothing is left (laws 7 and 8)."""
        basin = self.basin
        self._pause(paused=False)
        self._block(blocked=False)
        self._cordon(cordoned=False)
        # A pod whose volume is in a zone of which all nodes were lost waits for one there, by default for ever.
        basin.node("last", zone="b")
        async with asyncio.timeout(SERVED):
            await asyncio.gather(*self.clients)
        if self.reviving is not None:
            await self.reviving
        basin.cluster.faults.clear()
        for worker in basin.workers.values():
            worker.tasks.clear()
            worker.refusing, worker.silent = 0, False
        least = self.bounds.least
        await basin.until(lambda: (basin.replicas, len(basin.pods())) == (least, least), within=2500)
        await basin.until(lambda: len(basin.claims()) == CLAIMS * least, within=200)
        await basin.until(lambda: not basin.promises() and not list(basin.process.pool.records()), within=200)
        await basin.until(lambda: len(basin.process.facts().pods) == least)
        series = [f"{s.name}{s.labels}" for m in basin.process.registry.collect() for s in m.samples]
        assert not [each for each in series if "1-170-" in each]


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def live(actions: list[str], bounds: Bounds, seed: int) -> None:
    async with populated(settings(**bounds.rules), seed=seed) as basin:
        for number in range(2):
            basin.node(f"b{number}", zone="b")
        life = Life(basin, bounds, seed)
        try:
            basin.start("p0")
            await basin.insist(0)
            basin.workers[f"{POOL}-0"].begin(str(task(0)))
            for action in actions:
                await life.act(action)
                assert not life.broken
            await life.end()
            assert not life.broken
        finally:
            life.eyes.cancel()


@options(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(ACTIONS), max_size=25), st.sampled_from(BOUNDS), st.integers(0, 1000))
@example(["burst", "burst", "wait long", "wait long", "scale by hand", "wait long"], Bounds(), 1)
@example(
    ["burst", "wait", "restart pod", "kill", "wait long", "burst", "lost answer", "burst", "wait long"], Bounds(), 2
)
@example(["wait", "scale by hand", "api fault", "api fault", "wait"], Bounds(), 204)
@example(["burst", "new leader", "burst", "hang", "wait long", "wait long", "lose node", "wait long"], Bounds(), 3)
@example(["burst", "burst", "burst", "wait long", "wait long", "wait long"], Bounds(most=2), 4)
@example(["burst", "burst", "burst", "kill at a write", "wait long", "wait long"], Bounds(most=2, hard=True), 5)
@example(["burst", "block zone", "pause", "burst", "wait long", "go on", "wait long", "wait long"], Bounds(least=2), 6)
@example(["burst", "kill at a write", "burst", "kill at a write", "wait long", "wait long"], Bounds(least=2), 7)
@example(["burst", "no room", "burst", "burst", "wait long", "wait long", "wait long", "room"], Bounds(), 8)
@example(["burst", "wait", "no room", "lose node", "lose node", "wait long", "init again", "wait long"], Bounds(), 9)
def test_no_history_breaks_a_law_or_leaves_a_trace(actions: list[str], bounds: Bounds, seed: int) -> None:
    simulate(live(actions, bounds, seed))
