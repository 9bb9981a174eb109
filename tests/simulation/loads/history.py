"""One random history of imports, told from a seed.

For some minutes clients come, die and are started anew, workers hang, are slow or full and lose what they had, machines
and pods go, requests to the API server fail in every way, and two or three replicas are killed at any write, stopped,
cut off from the API server while their fronts go on, and started again. Then everything works: every import has to
end, and nothing of it may remain. `laws` hold all the time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import isawaitable
from random import Random
from typing import Final

from ebbtide.config import Settings
from ebbtide.sim.actors.ensemble import living
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.loaders.floor import PORT, Floor
from tests.doubles.worker import Worker
from tests.simulation.account import Account, canonical, played
from tests.simulation.loads.clients import Clients
from tests.simulation.loads.course import Course
from tests.simulation.loads.imports import CLUSTER, ENTRANCE
from tests.simulation.loads.laws import Laws
from tests.simulation.loads.machines import LONGEST_MOOD, Machines, cheer
from tests.simulation.loads.remains import remains
from tests.simulation.loads.replicas import Replicas
from tests.simulation.stage import Stage
from tests.simulation.workers import NAMESPACE, TIMINGS, Site, settings
from tests.waiting import until

# Seconds: until there is a leader and local pods; of trouble; until every import has ended after it; and until nothing
# remains then.
BEGINNING: Final = 40.0
TROUBLE: Final = 240.0
ENDING: Final = 900.0
CLEANING: Final = 900.0
_STARTS: Final = 50.0
_RESERVED: Final = 60.0


class ObservedWorker(Worker):
    """A worker whose tasks the laws hear of when they begin."""

    def __init__(self, pod: str, told: Callable[[str, str], None]) -> None:
        super().__init__(CLUSTER)
        self._pod = pod
        self._told = told

    def begin(self, *tasks: str) -> None:
        for task in tasks:
            self._told(self._pod, task)
        super().begin(*tasks)


def run(seed: int) -> Account:
    """Plays the history. What is broken is in the account; unforeseen exceptions are, too."""
    return played(Account(seed, of="loads"), _play)


async def _play(account: Account) -> None:
    rng = Random(f"loads {account.seed}")
    rules = _settings(rng)
    laws: list[Laws] = []

    def new(pod: str) -> Worker:
        """Pods begin after the laws."""
        return ObservedWorker(pod, laws[0].begun)

    async with Cluster(seed=account.seed) as cluster:
        floor = Floor(cluster.storage, NAMESPACE, new)
        try:
            stage = Stage(cluster, rules, None, floor.network)
            async with living(cluster.storage, seed=account.seed, timings=TIMINGS), stage:
                laws.append(Laws(stage, floor, rules.worker_scaler, ENTRANCE))
                site = Site(stage, floor, f"http://{ENTRANCE}:{PORT}")
                await _History(Course(account, site, laws[0], rng)).play()
        finally:
            await floor.close()


def _settings(rng: Random) -> Settings:
    most = rng.choice([2, 3])
    return settings(
        cluster_id=rng.choice([CLUSTER, CLUSTER, 0]),
        worker_count_limit=rng.choice([2, 4]),
        spawn_running_tasks=rng.choice([0, 1, 8]),
        expire_seconds=30,
        start_timeout=_STARTS,
        reservation_seconds=_RESERVED,
        refresh_interval=5,
        status_timeout=2,
        shared_pool_enabled=rng.random() < 0.6,
        shared_min_replicas=rng.choice([0, 0, 1]),
        shared_max_replicas=most,
        shared_scale_up_tasks_per_pod=2,
        shared_max_tasks_per_pod=rng.choice([2, 3]),
        shared_idle_pod_expire_sec=30,
        shared_hard_cap=rng.random() < 0.3,
    )


class _History:
    def __init__(self, course: Course) -> None:
        self._course = course
        self._clients = Clients(course)
        self._machines = Machines(course)
        self._replicas = Replicas(course)

    async def play(self) -> None:
        course = self._course
        for number in range(course.rng.choice([2, 2, 3])):
            self._replicas.start(f"r{number}")
        await asyncio.sleep(BEGINNING)
        try:
            while course.stage.time < BEGINNING + TROUBLE:
                await asyncio.sleep(course.rng.choice([0, 0.01, 0.2, 1, 3, 10]))
                await self._next()
            await self._mend()
        finally:
            for each in course.beside:
                each.cancel()
            await self._clients.close()
        self._judge()

    async def _next(self) -> None:
        clients, machines, replicas = self._clients, self._machines, self._replicas
        deeds: dict[Callable[[], str | Awaitable[str]], float] = {
            clients.begin: 8,
            clients.restart: 2,
            clients.abandon: 0.3,
            clients.ask_again: 3,
            clients.cancel: 1,
            clients.cancel_all: 0.2,
            clients.stray: 2,
            machines.mood: 4,
            machines.restart: 1,
            machines.lose_node: 0.6,
            machines.lose_pod: 0.6,
            machines.resize_pool: 0.5,
            replicas.fault: 4,
            replicas.trouble: 4,
        }
        deed = self._course.rng.choices(list(deeds), list(deeds.values()))[0]
        done = deed()
        self._course.note(await done if isawaitable(done) else done)

    # --- the end -----------------------------------------------------------------------------------------------

    async def _mend(self) -> None:
        """Everything works from now on, so that every import ends; then nothing of them may remain."""
        course, stage = self._course, self._course.stage
        stage.journal.hooks = [hook for hook in stage.journal.hooks if hook.method == "DELETE" and hook.times is None]
        await asyncio.sleep(LONGEST_MOOD)
        stage.faults.clear()
        stage.faults.cut_watches()
        course.note("from now on everything works")
        with suppress(TimeoutError):
            await until(self._all_done, ENDING, every=5.0)
        stuck = [each.task for each in self._clients.imports if not each.done]
        if stuck:
            course.laws.break_(f"the imports {stuck} do not end")
        course.note("all tasks end")
        for worker in course.site.floor.workers.values():
            cheer(worker)
            worker.tasks.clear()
        with suppress(TimeoutError):
            await until(lambda: not self._remains(), CLEANING, every=5.0)
        if left := self._remains():
            course.laws.break_(f"remains: {left}")

    def _all_done(self) -> bool:
        """Others that have asked for a task included, since each of them may have begun it anew."""
        return all(each.done for each in self._clients.imports) and all(each.done() for each in self._course.beside)

    def _remains(self) -> list[str]:
        leaders = [replica for replica in self._replicas.running() if replica.leads]
        return remains(self._course, self._clients.imports, leaders)

    def _judge(self) -> None:
        course, account, laws = self._course, self._course.account, self._course.laws
        account.broken += laws.broken
        account.met = laws.met
        course.note(f"met {dict(sorted(laws.met.items()))}")
        account.writes = [canonical(request) for request in course.stage.journal.requests if request.writes]
