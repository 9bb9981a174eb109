"""One random history of a cluster and its reconcilers, told from a seed.

For some minutes nodes, pods and signals come and go, others write too, requests and watches fail, replicas are killed
at any write, stopped, cut off and started again with wrong clocks. Then everything works again, and the cluster must
come to the rest that `oracle` tells. `invariants` hold all the time.
"""

import asyncio
from random import Random

from ebbtide.config import Settings
from ebbtide.sim import objects
from ebbtide.sim.actors.ensemble import living
from ebbtide.sim.actors.kubelet import Timings
from ebbtide.sim.cluster import Cluster
from tests.simulation import events, pod_events
from tests.simulation.account import Account, canonical, played
from tests.simulation.guarded import Guarded
from tests.simulation.invariants import Invariants
from tests.simulation.oracle import Rest
from tests.simulation.stage import Replica, Stage, settings
from tests.simulation.wiretap import Request

# Seconds: of trouble; after it, until every pause that trouble may have led to is over; and of rest that must follow.
TROUBLE = 240.0
MENDING = 330.0
REST = 60.0
# A watch that froze is silent for so long before it is dropped, twice before it begins anew; seconds.
_FROZEN = 330.0
_LATE = 100.0


def run(seed: int) -> Account:
    """Plays the history. What is broken is in the account; unforeseen exceptions are, too."""
    return played(Account(seed), _play)


async def _play(account: Account) -> None:
    rng = Random(f"history {account.seed}")
    async with Cluster(seed=account.seed) as cluster:
        timings = Timings(stopping=rng.choice([1.0, 5.0]))
        async with living(cluster.storage, seed=account.seed, timings=timings), _stage(cluster, rng) as stage:
            await _History(account, stage, rng).play()


def _stage(cluster: Cluster, rng: Random) -> Stage:
    election: dict[str, float] = rng.choice([{}, {}, {"lease_duration": 30, "renew_deadline": 20, "retry_period": 5}])
    return Stage(cluster, _settings(election, rng), timings=None)


def _settings(election: dict[str, float], rng: Random) -> Settings:
    return settings(
        election,
        max_rebalance_signal_time=rng.choice([30, 90]),
        hold_down=rng.choice([0, 0, 20]),
        min_open_zones=rng.choice([0, 0, 0, 1]),
        max_evictions_in_flight=rng.choice([0, 0, 2]),
        evict_bare_pods=rng.random() < 0.8,
        resync_period=rng.choice([15, 300]),
        node_groups=rng.choice([["*"], ["*"], ["*"], ["g"]]),
        zonal_volume_policy=rng.choice(["evict", "hold"]),
    )


class _History:
    def __init__(self, account: Account, stage: Stage, rng: Random) -> None:
        self._account = account
        self._stage = stage
        self._rng = rng
        self._invariants = Invariants(stage)
        self._guarded = Guarded(stage)
        self._started = 0
        # In some histories only the world changes, so that what replicas must know at every moment is told exactly.
        self._quiet = rng.random() < 0.5

    async def play(self) -> None:
        self._set_up()
        while self._stage.time < TROUBLE:
            await asyncio.sleep(self._rng.choice([0, 0, 0.01, 0.2, 1, 3, 10]))
            self._next()
        await self._mend()
        self._judge()

    def _set_up(self) -> None:
        stage, rng = self._stage, self._rng
        pod_events.set_up(stage)
        for group in events.GROUPS:
            zones = rng.sample(events.ZONES, rng.choice([1, 2, 3]))
            stage.nodes(*(f"{zone}{group}{n}" for zone in zones for n in range(rng.choice([1, 2, 3]))), group=group)
        stage.cluster.create(
            objects.deployment("web", replicas=3),
            objects.stateful_set("db", replicas=3),
            objects.budget("db", match={"app": "db"}, max_unavailable=1),
        )
        self._guarded.set_up()
        for _ in range(rng.choice([1, 1, 2])):
            self._start()

    # --- trouble -----------------------------------------------------------------------------------------------

    def _next(self) -> None:
        if not self._quiet and self._rng.random() < 0.15:
            self._note(self._trouble_a_replica())
            return
        guarded = self._guarded
        others = ((guarded.stop_or_start, 0.5), (guarded.remove_or_register, 0.5))
        what = events.happen(self._stage, self._rng, *others, server_is_well=self._quiet)
        if "Watch" in what or "Events" in what or "for watches" in what:
            self._turbulent(_FROZEN)
        elif " for When" in what:
            self._turbulent(_LATE)
        self._note(what)

    def _trouble_a_replica(self) -> str:
        running = [replica for replica in self._stage.replicas if not replica.task.done() and not replica.killed]
        if len(running) < 2 and self._rng.random() < 0.5:
            return self._start()
        if not running:
            return ""
        replica = self._rng.choice(running)
        self._turbulent(_LATE)
        match self._rng.choice(["kill", "kill", "stop", "cut", "jump"]):
            case "kill":
                return self._kill_at_a_write(replica)
            case "stop":
                replica.stopping.set()
                return f"SIGTERM for {replica.name}"
            case "cut":
                replica.tap.wire.reset()
                return f"all connections of {replica.name} break"
            case _:
                self._invariants.changes.everywhere()
                replica.clock.jump(seconds := self._rng.choice([-30, -1, 1, 30]))
                return f"the clock of {replica.name} jumps by {seconds} s"

    def _start(self) -> str:
        self._started += 1
        skew = self._rng.choice([0, 0, 0, -20, 20, -0.5])
        name = f"r{self._started}"
        self._stage.start(name, skew=skew)
        return f"start of {name}, its clock {skew:+} s"

    def _kill_at_a_write(self, replica: Replica) -> str:
        left, answered = [self._rng.randrange(6)], self._rng.random() < 0.5
        path = self._rng.choice(["*", "*", "/api/v1/*"])

        def count(request: Request) -> None:
            if request.who == replica.name and request.writes and not replica.killed:
                left[0] -= 1
                if left[0] < 0:
                    self._note(f"kill -9 of {replica.name} at {request.method} {request.path}")
                    replica.kill()

        words = f"{replica.name} will be killed {'after' if answered else 'before'} write {left[0]} to {path}"
        for method in ("PATCH", "POST", "PUT"):
            self._stage.on(method, path, count, answered=answered, times=None)
        return words

    def _turbulent(self, seconds: float) -> None:
        until = self._stage.time + seconds
        self._invariants.turbulent_until = max(self._invariants.turbulent_until, until)

    def _note(self, what: str) -> None:
        if what:
            self._account.diary.append(f"{self._stage.time:8.3f} {what}")

    # --- the end -----------------------------------------------------------------------------------------------

    async def _mend(self) -> None:
        """Everything works from now on; what was lost on a watch is found by a new list."""
        stage = self._stage
        stage.faults.clear()
        stage.journal.hooks.clear()
        self._guarded.register()
        stage.cluster.storage.compact()
        stage.faults.cut_watches()
        if all(replica.task.done() or replica.killed or replica.stopping.is_set() for replica in stage.replicas):
            self._note(self._start())
        self._note("from now on everything works")
        await asyncio.sleep(MENDING + stage.settings.node_rebalance.hold_down)

    def _judge(self) -> None:
        account, stage = self._account, self._stage
        rest = Rest(stage.storage, stage.settings.node_rebalance, stage.now)
        self._invariants.check_changes(stage.journal.changes)
        account.broken += self._invariants.broken
        account.broken += self._invariants.changes.broken
        account.broken += rest.faults(zone_vanished=self._invariants.zone_vanished)
        account.broken += self._guarded.faults()
        leaders = [replica.name for replica in stage.replicas if not replica.task.done() and replica.leads]
        if len(leaders) != 1:
            account.broken.append(f"leading at the end: {leaders}")
        late = [request for request in stage.journal.writes if request.time > stage.time - REST]
        account.broken += [f"no rest: {r.method} {r.path}" for r in late if not r.path.endswith("/eviction")]
        account.diary.append(f"{stage.time:8.3f} {stage.picture()}")
        account.writes = [canonical(request) for request in stage.journal.requests if request.writes]
