"""Laws of the pool over random histories: tasks come and go while workers, nodes, processes and people misbehave.

A client comes again until it has a place, is slow to begin there, runs for a while, and is sent to the same place
whenever it asks again. The laws are looked at in the moment of every write.
"""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from random import Random

from hypothesis import HealthCheck, example, given
from hypothesis import settings as options
from hypothesis import strategies as st

from ebbtide.sim.faults import Answer, Drop, When
from ebbtide.sim.kinds import NODES, STATEFUL_SETS
from ebbtide.sim.stored import Event
from ebbtide.sim.time import simulate
from tests.doubles.worker import Worker
from tests.reconciler.scaler.shared.basin import POOL, Basin, pod_of, populated, settings, task
from tests.simulation.wiretap import Hook, Request

MOST = 6
LEAST = 0
RESERVATION = 60.0
IDLE = 60.0
RULES = {
    "shared_max_replicas": MOST,
    "shared_min_replicas": LEAST,
    "shared_scale_up_tasks_per_pod": 4,
    "shared_max_tasks_per_pod": 6,
    "shared_idle_pod_expire_sec": IDLE,
    "reservation_seconds": RESERVATION,
    "start_timeout": 60,
    "refresh_interval": 5,
    "status_timeout": 2,
}
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
    "new leader",
    "scale by hand",
    "lose node",
    "api fault",
    "lost answer",
    "init again",
)


class Life:
    """One history."""

    def __init__(self, basin: Basin, seed: int) -> None:
        self.basin = basin
        self.random = Random(seed)
        self.clients: list[asyncio.Task[None]] = []
        self.told: dict[int, str] = {}
        self.number = 0
        self.nodes = 0
        self.by_hand = False
        self.broken: list[str] = []
        basin.storage.listen(self._set_changed, STATEFUL_SETS)
        basin.journal.hooks.append(Hook("DELETE", "/api/v1/namespaces/*/pods/*", self._pod_deleted, times=None))

    # --- the laws ----------------------------------------------------------------------------------------------

    def _set_changed(self, event: Event) -> None:
        if event.stored.name != POOL or self.by_hand or event.before is None or event.before.uid != event.stored.uid:
            return
        before, after = (int(stored.body["spec"]["replicas"]) for stored in (event.before, event.stored))
        if before == after:
            return
        if not min(before, LEAST) <= after <= max(before, MOST):
            self.broken.append(f"law 3: {before} → {after}")
        for ordinal in range(after, before):
            self._must_be_free(f"{POOL}-{ordinal}", f"{before} → {after}")

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
        place = await self.basin.insist(number)
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

    async def _again(self) -> None:
        """A client that asks again is sent where its task is (law 2)."""
        running = [n for n, pod in self.told.items() if task(n) in self.basin.workers[pod].tasks]
        if running:
            number = self.random.choice(running)
            place = await self.basin.insist(number)
            if task(number) in self.basin.workers[self.told[number]].tasks and pod_of(place) != self.told[number]:
                self.broken.append(f"law 2: {number} on {self.told[number]} is sent to {pod_of(place)}")

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

    def _fault(self) -> None:
        fault, method = Answer(self.random.choice((500, 503, 429))), self.random.choice(("PATCH", "POST"))
        self.basin.cluster.faults.inject(fault, When(method, times=self.random.randint(1, 5)))

    def _lose_answer(self) -> None:
        self.basin.cluster.faults.inject(Drop(processed=True), When("PATCH", times=self.random.randint(1, 3)))

    def _by_hand(self) -> None:
        replicas = self.random.randint(0, MOST)
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
        await asyncio.gather(*self.clients)
        basin = self.basin
        basin.cluster.faults.clear()
        for worker in basin.workers.values():
            worker.tasks.clear()
            worker.refusing, worker.silent = 0, False
        await basin.until(lambda: not basin.replicas and not basin.pods() and not basin.claims(), within=2500)
        await basin.until(lambda: not basin.promises() and not list(basin.process.pool.records()), within=200)
        await basin.until(lambda: not basin.process.facts().pods)


async def live(actions: list[str], seed: int) -> None:
    async with populated(settings(**RULES), seed=seed) as basin:
        life = Life(basin, seed)
        basin.start("p0")
        await basin.insist(0)
        basin.workers[f"{POOL}-0"].begin(str(task(0)))
        for action in actions:
            await life.act(action)
            assert not life.broken
            assert basin.process.facts().replicas <= MOST
        await life.end()
        assert not life.broken


@options(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(ACTIONS), max_size=25), st.integers(0, 1000))
@example(["burst", "burst", "wait long", "wait long", "scale by hand", "wait long"], 1)
@example(["burst", "wait", "restart pod", "kill", "wait long", "burst", "lost answer", "burst", "wait long"], 2)
@example(["wait", "scale by hand", "api fault", "api fault", "wait"], 204)
@example(["burst", "new leader", "burst", "hang", "wait long", "wait long", "lose node", "wait long"], 3)
def test_no_history_breaks_a_law_or_leaves_a_trace(actions: list[str], seed: int) -> None:
    simulate(live(actions, seed))
