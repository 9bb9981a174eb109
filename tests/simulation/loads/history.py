"""One random history of imports, told from a seed.

For some minutes clients come, die and are started anew, workers hang, are slow or full and lose what they had, machines
and pods go, requests to the API server fail in every way, and two or three replicas are killed at any write, stopped,
cut off from the API server while their fronts go on, and started again. Then everything works: every import has to
end, and nothing of it may remain. `laws` hold all the time.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from inspect import isawaitable
from random import Random
from typing import Any, Final

import aiohttp
from structlog.testing import capture_logs

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.config.scaler import WorkerScaler
from ebbtide.sim import objects
from ebbtide.sim.actors.ensemble import living
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.faults import Answer, Compact, CutWatch, Delay, Drop, Effect, RepeatEvents, When
from ebbtide.sim.kinds import CONFIG_MAPS, NODES, PODS, STATEFUL_SETS
from ebbtide.sim.loaders.floor import PORT, Floor
from ebbtide.sim.storage import Write
from ebbtide.sim.time import simulate
from tests.doubles.client import ImportFailedError
from tests.doubles.worker import Worker
from tests.simulation.history import Account, canonical
from tests.simulation.loads.imports import CLUSTER, ENTRANCE, Entrance, Import, runs
from tests.simulation.loads.laws import Laws
from tests.simulation.stage import Replica, Stage
from tests.simulation.wiretap import Request
from tests.simulation.workers import NAMESPACE, TIMINGS, Site, large, settings
from tests.waiting import until

# Seconds: until there is a leader and local pods; of trouble; until every import has ended after it; and until nothing
# remains then.
BEGINNING: Final = 40.0
TROUBLE: Final = 240.0
ENDING: Final = 900.0
CLEANING: Final = 900.0
POOL: Final = "ldw-shared"
MOST_IMPORTS: Final = 14
_STARTS: Final = 50.0
_RESERVED: Final = 60.0
# A worker is in a mood for less than a promise, and than the time for which a new leader waits for a local pod.
_LONGEST_MOOD: Final = 45.0
_SIZES: Final = (0, 1 << 20, 1 << 20, 1 << 30, 3 << 30, 12 << 30)
_SOMEBODY: Final = Write("somebody-else")
_KUBELET: Final = Write("kubelet", "status")
_OURS: Final = "ebbtide-reconciler/*"
_EFFECTS: Final[tuple[tuple[Effect, When], ...]] = (
    (Answer(409, "Conflict"), When("PATCH", user_agent=_OURS, probability=0.5)),
    (Answer(409, "AlreadyExists"), When("POST", "*/tidb-serverless/*", user_agent=_OURS, probability=0.5)),
    (Answer(410, "Expired"), When("WATCH", user_agent=_OURS, probability=0.5)),
    (Answer(410, "Expired"), When("GET", user_agent=_OURS, probability=0.3)),
    (Answer(429, "TooManyRequests", retry_after=2), When(user_agent=_OURS, probability=0.5)),
    (Answer(500, "InternalError"), When(user_agent=_OURS, probability=0.5)),
    (Answer(503, "ServiceUnavailable"), When(user_agent=_OURS)),
    (Answer(504, "Timeout"), When("PATCH", user_agent=_OURS, probability=0.5)),
    (Drop(), When(user_agent=_OURS, probability=0.3)),
    (Drop(processed=True), When("PATCH", user_agent=_OURS, probability=0.5)),
    (Drop(processed=True), When("POST", user_agent=_OURS, probability=0.5)),
    (Drop(processed=True), When("DELETE", user_agent=_OURS)),
    (Delay(before=1.0, after=1.0, jitter=8.0), When(user_agent=_OURS, probability=0.5)),
    (CutWatch(after_events=1), When("WATCH", user_agent=_OURS)),
    (RepeatEvents(probability=0.5, count=None), When("WATCH", user_agent=_OURS)),
    (Compact(), When("WATCH", user_agent=_OURS)),
)


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
    account = Account(seed, of="loads")
    state = random.getstate()
    random.seed(seed)
    with capture_logs() as logs:
        try:
            simulate(_play(account), limit=7200.0)
        except Exception as error:  # a history that cannot be played is a failing one, and must name its seed as well
            account.broken.append(f"{type(error).__name__}: {error}")
        finally:
            random.setstate(state)
    account.broken += [f"logged: {entry}" for entry in logs if entry["log_level"] in ("error", "critical")]
    return account


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
                await _History(account, Site(stage, floor, f"http://{ENTRANCE}:{PORT}"), laws[0], rng).play()
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
    def __init__(self, account: Account, site: Site, laws: Laws, rng: Random) -> None:
        self._account = account
        self._site = site
        self._stage = site.stage
        self._laws = laws
        self._rng = rng
        self._entrance = Entrance(site.stage, Random(rng.random()))
        self._imports: list[Import] = []
        self._beside: list[asyncio.Task[None]] = []
        self._nodes = 0
        self._lives = 0

    async def play(self) -> None:
        for number in range(self._rng.choice([2, 2, 3])):
            self._start(f"r{number}")
        await asyncio.sleep(BEGINNING)
        try:
            while self._stage.time < BEGINNING + TROUBLE:
                await asyncio.sleep(self._rng.choice([0, 0.01, 0.2, 1, 3, 10]))
                await self._next()
            await self._mend()
        finally:
            for each in self._beside:
                each.cancel()
            await asyncio.gather(*(each.close() for each in self._imports))
        self._judge()

    async def _next(self) -> None:
        deeds: dict[Callable[[], str | Awaitable[str]], float] = {
            self._import: 8,
            self._restart_client: 2,
            self._abandon: 0.3,
            self._ask_again: 3,
            self._cancel: 1,
            self._cancel_all: 0.2,
            self._stray: 2,
            self._mood: 4,
            self._restart_worker: 1,
            self._lose_node: 0.6,
            self._lose_pod: 0.6,
            self._by_hand: 0.5,
            self._fault: 4,
            self._trouble_a_replica: 4,
        }
        deed = self._rng.choices(list(deeds), list(deeds.values()))[0]
        done = deed()
        self._note(await done if isawaitable(done) else done)

    # --- clients -----------------------------------------------------------------------------------------------

    def _import(self) -> str:
        number = len(self._imports)
        if number >= MOST_IMPORTS:
            return ""
        task, size = f"{number % 3 + 1}-170-{number}-{self._rng.choice([0, -1])}", self._rng.choice(_SIZES)
        self._imports.append(Import(self._laws, self._entrance, Random(self._rng.random()), task, size))
        return f"import of {task}, {size} bytes"

    def _some(self, holds: Callable[[Import], object] = lambda _: True) -> Import | None:
        found = [each for each in self._imports if holds(each)]
        return self._rng.choice(found) if found else None

    async def _restart_client(self) -> str:
        found = self._some(lambda each: not each.done)
        if found is None:
            return ""
        await found.restart()
        return f"the client of {found.task} is started anew"

    async def _abandon(self) -> str:
        found = self._some(lambda each: not each.done)
        if found is None:
            return ""
        await found.abandon()
        return f"the client of {found.task} dies"

    def _ask_again(self) -> str:
        """Another process asks for a task that runs: both kinds of requests that lead to it, once or for a while."""
        found = self._some(lambda each: self._laws.running_at(each.task))
        if found is None:
            return ""
        times = self._rng.choice([1, 60])

        async def ask() -> None:
            async with found.client() as client:
                client.tries, client.pause = 1, 0.3
                for request in (*[client.exists] * times, client.init):
                    client.base = client.front
                    # What is wrong with an answer is heard by the laws.
                    with suppress(ImportFailedError):
                        await request()
                    await asyncio.sleep(0.3)

        self._aside(ask())
        return f"another asks {times} times for {found.task}"

    def _cancel(self) -> str:
        found = self._some()
        if found is None:
            return ""
        self._laws.cancelled.add(found.task)
        self._aside(self._once(ENTRANCE, "DELETE", task_id=found.task))
        return f"{found.task} is cancelled"

    def _cancel_all(self) -> str:
        prefix = str(self._rng.randint(1, 4))
        self._laws.cancelled.update(each.task for each in self._imports if each.task.startswith(f"{prefix}-"))
        self._aside(self._once(ENTRANCE, "DELETE", task_id_prefix=prefix))
        return f"all of keyspace {prefix} are cancelled"

    def _stray(self) -> str:
        """What belongs to a worker comes to a front, or a list is wanted."""
        running = [replica.name for replica in self._stage.replicas if runs(replica)]
        found = self._some()
        if found is None:
            return ""
        host = self._rng.choice([ENTRANCE, *running])
        method, more = self._rng.choice(
            [
                ("PUT", {"writer_id": "1", "chunk_id": "1"}),
                ("POST", {"writer_id": "1", "flush": "true"}),
                ("POST", {"build": "true"}),
                ("GET", {}),
            ]
        )
        query = more if method == "GET" else {"task_id": found.task, **more}
        self._aside(self._once(host, method, **query))
        return f"{method} {more} at {host}"

    async def _once(self, host: str, method: str, **query: str) -> None:
        """One request, which nobody repeats."""
        timeout = aiohttp.ClientTimeout(total=100.0)
        async with aiohttp.ClientSession(
            connector=self._entrance.connector(), trace_configs=[self._laws.ear()], timeout=timeout
        ) as session:
            url = f"http://{host}:{PORT}/load_data"
            try:
                await session.request(method, url, params={"cluster_id": str(CLUSTER), **query}, allow_redirects=False)
            except (aiohttp.ClientError, OSError):
                return

    # --- workers and their machines ----------------------------------------------------------------------------

    def _worker(self) -> tuple[str, Worker] | None:
        names = sorted(self._site.floor.workers)
        if not names:
            return None
        name = self._rng.choice(names)
        return name, self._site.floor.workers[name]

    def _mood(self) -> str:
        chosen = self._worker()
        if chosen is None:
            return ""
        (name, worker), seconds = chosen, self._rng.uniform(1.0, _LONGEST_MOOD)
        mood = self._rng.choice(["silent", "refusing", "full", "slow"])
        match mood:
            case "silent":
                worker.silent = True
            case "refusing":
                worker.refusing = self._rng.choice([500, 503])
            case "full":
                worker.full = True
            case _:
                worker.delay = self._rng.choice([1.0, 5.0, 15.0])

        async def pass_() -> None:
            await asyncio.sleep(seconds)
            _cheer(worker)

        self._aside(pass_())
        return f"{name} is {mood} for {seconds:.0f} s"

    def _restart_worker(self) -> str:
        """Its container begins anew in its pod. Local pods do not restore: that is the one exception of the page."""
        chosen = self._worker()
        pod = None if chosen is None else self._stage.storage.peek(PODS, chosen[0], NAMESPACE)
        if chosen is None or pod is None:
            return ""
        name, worker = chosen
        keeps = not name.startswith("tikv-api") and self._rng.random() < 0.5
        self._lives += 1
        if not keeps:
            self._laws.forgets(worker)
        worker.restart(keeps=keeps)
        statuses = [
            {**status, "containerID": f"containerd://again-{self._lives}"}
            for status in pod.body["status"]["containerStatuses"]
        ]
        change = {"status": {"containerStatuses": statuses}}
        self._stage.storage.modify(PODS, name, NAMESPACE, lambda body: objects.changed(body, change), _KUBELET)
        return f"{name} begins anew {'with' if keeps else 'without'} its tasks"

    def _lose_node(self) -> str:
        """Another comes in its zone, or volumes would keep pods from starting for ever."""
        name = self._rng.choice(sorted(node.name for node in self._stage.storage.scan(NODES)))
        zone = self._stage.node(name)["metadata"]["labels"][vocabulary.ZONE_LABEL]
        self._nodes += 1
        self._stage.cluster.create(large(objects.node(f"new{self._nodes}", zone=zone)))
        self._stage.delete(name)
        return f"node {name} is lost"

    def _lose_pod(self) -> str:
        chosen = self._worker()
        if chosen is None:
            return ""
        self._stage.storage.delete(PODS, chosen[0], NAMESPACE, Deletion(grace_seconds=0))
        return f"pod {chosen[0]} is deleted by somebody"

    def _by_hand(self) -> str:
        replicas = self._rng.randint(0, 3)
        if self._stage.storage.peek(STATEFUL_SETS, POOL, NAMESPACE) is None:
            return ""
        self._laws.by_hand = True
        change = {"spec": {"replicas": replicas}}
        self._stage.storage.modify(STATEFUL_SETS, POOL, NAMESPACE, lambda b: objects.changed(b, change), _SOMEBODY)
        self._laws.by_hand = False
        return f"somebody resizes the pool to {replicas}"

    # --- the server, and replicas ------------------------------------------------------------------------------

    def _fault(self) -> str:
        effect, when = self._rng.choice(_EFFECTS)
        seconds = self._rng.choice([1.0, 5.0, 15.0, 30.0])
        injection = self._stage.faults.inject(effect, when)

        async def pass_() -> None:
            await asyncio.sleep(seconds)
            self._stage.faults.remove(injection)

        self._aside(pass_())
        return f"{effect} for {when} for {seconds:.0f} s"

    def _start(self, name: str) -> str:
        replica = self._stage.start(name, skew=self._rng.choice([0.0, 0.0, -20.0, 20.0]))
        replica.task.add_done_callback(lambda _: self._over(replica))
        return f"start of {name}"

    def _over(self, replica: Replica) -> None:
        """Where a process has ended nobody listens, until the next one does."""
        if not replica.killed:
            self._stage.network.leave(replica.name, PORT)

    def _running(self) -> list[Replica]:
        return [replica for replica in self._stage.replicas if runs(replica) and not replica.stopping.is_set()]

    def _trouble_a_replica(self) -> str:
        running = self._running()
        if not running:
            return ""
        leaders = [replica for replica in running if replica.leads]
        replica = self._rng.choice(leaders if leaders and self._rng.random() < 0.6 else running)
        match self._rng.choice(["kill", "kill", "die", "stop", "cut off", "cut off", "reset", "jump"]):
            case "kill":
                return self._kill_at_a_write(replica)
            case "die":
                replica.kill()
                self._again_later(f"{replica.name}x")
                return f"the machine of {replica.name} dies"
            case "stop":
                replica.stopping.set()
                self._again_later(f"{replica.name}y")
                return f"SIGTERM for {replica.name}"
            case "cut off":
                return self._cut_off(replica)
            case "reset":
                replica.tap.wire.reset()
                return f"all connections of {replica.name} to the server break"
            case _:
                replica.clock.jump(seconds := self._rng.choice([-30, -1, 1, 30]))
                return f"the clock of {replica.name} jumps by {seconds} s"

    def _kill_at_a_write(self, replica: Replica) -> str:
        """Its next process is at the same address."""
        left, answered = [self._rng.randrange(4)], self._rng.random() < 0.5

        def count(request: Request) -> None:
            if request.who == replica.name and request.writes and runs(replica):
                left[0] -= 1
                if left[0] < 0:
                    self._note(f"kill -9 of {replica.name} at {request.method} {request.path}")
                    replica.kill()
                    self._again_later(replica.name)

        path = self._rng.choice(["*", "*/tidb-serverless/*", "*/tidb-serverless/*"])
        for method in ("PATCH", "POST", "PUT", "DELETE"):
            self._stage.on(method, path, count, answered=answered, times=None)
        return f"{replica.name} will be killed {'after' if answered else 'before'} write {left[0]} to {path}"

    def _cut_off(self, replica: Replica) -> str:
        """Nothing of it gets to the server for a while, but what is on its way; its front goes on answering."""
        seconds = self._rng.choice([3.0, 15.0, 40.0])
        replica.tap.wire.refusing = True

        async def heal() -> None:
            await asyncio.sleep(seconds)
            replica.tap.wire.refusing = replica.killed

        self._aside(heal())
        return f"{replica.name} is cut off from the server for {seconds:.0f} s"

    def _again_later(self, name: str) -> None:
        seconds = self._rng.choice([0.0, 1.0, 10.0])

        async def again() -> None:
            await asyncio.sleep(seconds)
            self._note(self._start(name))

        self._aside(again())

    # --- below -------------------------------------------------------------------------------------------------

    def _aside(self, what: Coroutine[Any, Any, None]) -> None:
        self._beside.append(asyncio.ensure_future(what))

    def _note(self, what: str) -> None:
        if what:
            self._account.diary.append(f"{self._stage.time:8.3f} {what}")

    # --- the end -----------------------------------------------------------------------------------------------

    async def _mend(self) -> None:
        """Everything works from now on, so that every import ends; then nothing of them may remain."""
        stage = self._stage
        stage.journal.hooks = [hook for hook in stage.journal.hooks if hook.method == "DELETE" and hook.times is None]
        await asyncio.sleep(_LONGEST_MOOD)
        stage.faults.clear()
        stage.faults.cut_watches()
        self._note("from now on everything works")
        with suppress(TimeoutError):
            await until(self._all_done, ENDING, every=5.0)
        stuck = [each.task for each in self._imports if not each.done]
        if stuck:
            self._laws.break_(f"the imports {stuck} do not end")
        self._note("all tasks end")
        for worker in self._site.floor.workers.values():
            _cheer(worker)
            worker.tasks.clear()
        with suppress(TimeoutError):
            await until(lambda: not self._remains(), CLEANING, every=5.0)
        remains = self._remains()
        if remains:
            self._laws.break_(f"remains: {remains}")

    def _all_done(self) -> bool:
        """Others that have asked for a task included, since each of them may have begun it anew."""
        return all(each.done for each in self._imports) and all(each.done() for each in self._beside)

    def _remains(self) -> list[str]:
        """Of tasks: objects, promises, what the leader knows, and series."""
        leaders = [replica for replica in self._running() if replica.leads]
        left = [] if len(leaders) == 1 else [f"leaders {[leader.name for leader in leaders]}"]
        return [*left, *self._objects(), *self._promises(), *(what for each in leaders for what in self._series(each))]

    def _objects(self) -> Iterator[str]:
        """All but the pool itself, as large as it has to be."""
        rules = self._rules
        pods = [
            f"-{POOL}-{ordinal}" for ordinal in range(rules.shared_min_replicas if rules.shared_pool_enabled else 0)
        ]
        for name in self._site.leftovers():
            if name != POOL and not any(name.endswith(pod) for pod in pods):
                yield name

    def _promises(self) -> Iterator[str]:
        ledger = self._stage.storage.peek(CONFIG_MAPS, f"{POOL}-ledger", NAMESPACE)
        for key, line in ({} if ledger is None else ledger.body.get("data") or {}).items():
            if key.isdigit():
                yield f"promise {line}"

    def _series(self, replica: Replica) -> Iterator[str]:
        samples = [sample for metric in replica.program.registry.collect() for sample in metric.samples]
        for sample in samples:
            words = " ".join(sample.labels.values())
            named = any(each.task in words for each in self._imports)
            if named or (sample.name == "worker_scaler_tasks" and sample.value):
                yield f"series {sample.name} {words} {sample.value}"

    @property
    def _rules(self) -> WorkerScaler:
        return self._stage.settings.worker_scaler

    def _judge(self) -> None:
        account, laws = self._account, self._laws
        account.broken += laws.broken
        account.met = laws.met
        account.diary.append(f"{self._stage.time:8.3f} met {dict(sorted(laws.met.items()))}")
        account.writes = [canonical(request) for request in self._stage.journal.requests if request.writes]


def _cheer(worker: Worker) -> None:
    worker.silent, worker.refusing, worker.full, worker.delay = False, 0, False, 0.0
