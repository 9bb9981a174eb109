"""A stage for stories: the embedded cluster on simulated time, replicas of the reconciler, and what is expected.

def test_something() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(299s)", "a2")
        stage.start()
        await stage.until(lambda: stage.marked("a", "P"))

    play(story)
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

from structlog.testing import capture_logs

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.service.supervisor import Supervisor
from ebbtide.sim import objects
from ebbtide.sim.actors.kubelet import Kubelet, Timings
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import NODES, PODS, kind_of
from ebbtide.sim.storage import Write
from ebbtide.sim.stored import Object
from ebbtide.sim.time import SimulatedClock, simulate
from ebbtide.sim.wire import Network
from reconciler.main import Reconciler
from reconciler.place import Place
from tests.simulation import notation
from tests.simulation.wiretap import Hook, Journal, Request, Wiretap
from tests.waiting import until

NAMESPACE = "ebbtide-system"
LOAD_DATA_PORT = 19500
TIMINGS = Timings(stopping=2)
# Nodes are this old when a story begins, so that signals may have been seen before it; seconds.
AGE = 7200.0
_SOMEBODY = Write("somebody-else")


def settings(election: dict[str, float] | None = None, **rebalance: Any) -> Settings:
    """The default configuration with some keys of `[leader-election]` and `[node-rebalance]` changed."""
    # Certificates are a story of their own.
    sections = {"leader-election": election or {}, "node-rebalance": rebalance, "certs": {"mode": "files"}}
    return Settings.model_validate(
        {section: {key.replace("_", "-"): value for key, value in keys.items()} for section, keys in sections.items()}
    )


class Replica:
    """One process of the reconciler, without its HTTP port; its front for load data is in the network of the stage."""

    def __init__(self, stage: "Stage", name: str, settings: Settings, *, skew: float, dry_run: bool) -> None:
        assert isinstance(stage.cluster.clock, SimulatedClock)
        self.name = name
        self.tap = Wiretap(stage.cluster, name, stage.journal)
        self.client = Client(
            self.tap.access(),
            field_manager=vocabulary.FIELD_MANAGER_RECONCILER,
            user_agent=f"ebbtide-reconciler/{name}",
        )
        self.clock = stage.cluster.clock.skewed(skew)
        place = Place(NAMESPACE, name, f"http://{name}:{LOAD_DATA_PORT}" if settings.worker_scaler.run else "")
        self.program = Reconciler(settings, self.client, self.clock, place, dry_run, stage.network.connector)
        self._network = stage.network
        if self.program.front is not None:
            self._network.listen(name, LOAD_DATA_PORT, self.program.front.connections)
        self.stopping = asyncio.Event()
        self.killed = False
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        async with self.client:
            await Supervisor(self.program.health, self.stopping).run(*self.program.parts(None))

    @property
    def leads(self) -> bool:
        return self.program.registry.get_sample_value("ebbtide_leader") == 1

    def metric(self, name: str, **labels: str) -> float | None:
        return self.program.registry.get_sample_value(name, labels)

    def state(self, zone: str, group: str = "g") -> str:
        """The state that the metrics give the cell, "" without one."""
        cell = {"node_group": group, "node_zone": zone}
        family = "noderebalance_block_state"
        samples = (s for metric in self.program.registry.collect() if metric.name == family for s in metric.samples)
        states = [s.labels["state"] for s in samples if s.value == 1 and s.labels.items() >= cell.items()]
        assert len(states) <= 1, f"{zone} is in several states: {states}"
        return states[0] if states else ""

    def kill(self) -> None:
        """`kill -9`: from now on nothing leaves it, and nobody there cleans up in a way that could be seen."""
        self.killed = True
        self.tap.cut()
        self._network.leave(self.name, LOAD_DATA_PORT)
        self.task.cancel()

    async def stop(self) -> None:
        """SIGTERM, and the end of the process."""
        self.stopping.set()
        await self.task

    async def close(self) -> None:
        """Ends it if it still runs. Raises what it died of."""
        if not self.task.done():
            self.kill()
        with suppress(asyncio.CancelledError):
            await self.task
        await self.tap.close()


class Stage:
    """The cluster with everybody in it, as an async context manager. `network` joins replicas, workers and clients."""

    def __init__(
        self, cluster: Cluster, settings: Settings, timings: Timings | None, network: Network | None = None
    ) -> None:
        self.cluster = cluster
        self.network = network or Network()
        self.storage = cluster.storage
        self.faults = cluster.faults
        self.settings = settings
        self.journal = Journal(cluster)
        self.replicas: list[Replica] = []
        self._kubelet = None if timings is None else asyncio.ensure_future(Kubelet(self.storage, timings).run())
        cluster.create(objects.namespace(NAMESPACE))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stack:
            if self._kubelet is not None:
                self._kubelet.cancel()
            for replica in self.replicas:
                stack.push_async_callback(replica.close)

    def start(
        self, name: str = "one", *, settings: Settings | None = None, skew: float = 0.0, dry_run: bool = False
    ) -> Replica:
        """A further replica; after a kill, the next process under the same name."""
        replica = Replica(self, name, settings or self.settings, skew=skew, dry_run=dry_run)
        self.replicas.append(replica)
        return replica

    def on(
        self,
        method: str,
        path: str,
        do: Callable[[Request], object],
        *,
        answered: bool = False,
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """Does something when such a request arrives, or once it is processed and its answer is about to go out."""
        self.journal.hooks.append(Hook(method, path, do, answered, skip, times))

    # --- time --------------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        return self.cluster.clock.monotonic()

    @property
    def now(self) -> float:
        return self.cluster.clock.now()

    async def until(self, holds: Callable[[], object], within: float = 60.0) -> float:
        """Waits; the seconds it took. Raises TimeoutError."""
        return await until(holds, within, picture=self.picture)

    async def settle(self, quiet: float = 120.0, within: float = 7200.0) -> None:
        """Waits until neither nodes nor pods nor writes have changed for so long."""
        async with asyncio.timeout(within):
            while True:
                before = len(self.journal.changes) + len(self.journal.writes)
                await asyncio.sleep(quiet)
                if before == len(self.journal.changes) + len(self.journal.writes):
                    return

    # --- what others do ----------------------------------------------------------------------------------------

    def nodes(self, *texts: str, group: str = "g") -> None:
        """Nodes that have been there for two hours; see `notation`."""
        clock = self.cluster.clock
        assert isinstance(clock, SimulatedClock)
        for text in texts:
            told = notation.told(text, self.now, group)
            clock.jump(-AGE)
            try:
                self.cluster.create(told.body)
            finally:
                clock.jump(AGE)
            if told.deleting:
                self.storage.delete(NODES, told.body["metadata"]["name"], "", Deletion())

    def join(self, text: str, group: str = "g", **patch: Any) -> None:
        """A node that appears now, after a merge patch to what was written."""
        self.cluster.create(objects.changed(notation.told(text, self.now, group).body, patch))

    def change(self, name: str, change: Callable[[Object], None]) -> None:
        """Another program writes a node."""

        def changed(body: Object) -> Object:
            change(body)
            return body

        self.storage.modify(NODES, name, "", changed, _SOMEBODY)

    def taint(self, name: str, *taints: Object) -> None:
        """Another program appends taints."""
        self.change(name, lambda body: body["spec"].setdefault("taints", []).extend(taints))

    def untaint(self, name: str, key: str) -> None:
        """Another program removes the taints with that key, or with that letter."""

        def without(body: Object) -> None:
            keys = {key, f"example.com/{key}"}
            body["spec"]["taints"] = [t for t in body["spec"].get("taints") or () if t["key"] not in keys]

        self.change(name, without)

    def signal(self, *names: str) -> None:
        for name in names:
            self.taint(name, notation.signal())

    def calm(self, *names: str) -> None:
        """The signals go."""
        for name in names:
            self.untaint(name, vocabulary.SIGNAL_TAINT_KEY)

    def label(self, name: str, **labels: str | None) -> None:
        """Sets `zone` and `group`; None takes them away."""
        keys = {"zone": vocabulary.ZONE_LABEL, "group": vocabulary.NODE_GROUP_LABEL}
        patch = {"metadata": {"labels": {keys[label]: value for label, value in labels.items()}}}
        self.storage.modify(NODES, name, "", lambda body: objects.changed(body, patch), _SOMEBODY)

    def annotate(self, name: str, key: str, value: str | None) -> None:
        patch = {"metadata": {"annotations": {key: value}}}
        self.storage.modify(NODES, name, "", lambda body: objects.changed(body, patch), _SOMEBODY)

    def delete(self, *names: str) -> None:
        for name in names:
            self.storage.delete(NODES, name)

    def pods(self, node: str, *names: str, kind: str = "ReplicaSet", **patch: Any) -> list[str]:
        """Running pods of one owner on a node, after a merge patch; their UIDs."""
        owner = self._owner(kind) if kind else None
        bodies = (objects.changed(objects.pod(name, node=node, owner=owner), patch) for name in names)
        return [str(self.cluster.create(body)[0]["metadata"]["uid"]) for body in bodies]

    def _owner(self, kind: str) -> Object:
        body = {**objects.replica_set("owner", replicas=0), "kind": kind}
        served = kind_of(body["apiVersion"], kind)
        assert served is not None
        found = self.storage.peek(served, "owner", "default")
        return self.cluster.create(body)[0] if found is None else found.copy()

    # --- what is to be seen ------------------------------------------------------------------------------------

    def node(self, name: str) -> Object:
        return self.storage.find(NODES, name).body

    def marks(self, name: str) -> str:
        return notation.marks(self.node(name))

    def prevented(self, *names: str) -> bool:
        """Whether each of them carries our taint exactly once."""
        return all(self.marks(name).split().count("P") == 1 for name in names)

    def clean(self, *names: str) -> bool:
        """Whether none of them carries our taint."""
        return not any("P" in self.marks(name).split() for name in names)

    def first_seen(self, name: str) -> str | None:
        annotations = self.node(name)["metadata"].get("annotations") or {}
        found: str | None = annotations.get(vocabulary.FIRST_SEEN_ANNOTATION)
        return found

    def on_node(self, node: str) -> list[str]:
        """The pods there that are not terminating."""
        return [p.name for p in self.storage.scan(PODS) if not p.deleting and p.body["spec"].get("nodeName") == node]

    def evicted(self) -> list[str]:
        """Names of the pods whose eviction was accepted, in order."""
        return [request.pod for request in self.journal.evictions if request.status == 201]

    def picture(self) -> str:
        """All nodes in the notation, for messages."""
        return "; ".join(f"{node.name} {notation.marks(node.body)}".strip() for node in self.storage.scan(NODES))


def play(
    story: Callable[[Stage], Coroutine[Any, Any, None]],
    *,
    seed: int = 0,
    timings: Timings | None = TIMINGS,
    **rebalance: Any,
) -> None:
    """Runs a story on simulated time; fails for any error that the program logs, unless it ended by it."""

    async def main() -> None:
        async with Cluster(seed=seed) as cluster, Stage(cluster, settings(**rebalance), timings) as stage:
            await story(stage)

    with capture_logs() as logs:
        simulate(main())
    assert not [entry for entry in logs if entry["log_level"] in ("error", "critical")]
