"""What a scenario is played on: the embedded cluster with everything that moves in it, and the reconciler itself."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

from prometheus_client import CollectorRegistry

from ebbtide.cli.demo.manifests import DATABASE
from ebbtide.cli.demo.observer import Observer
from ebbtide.cli.demo.scene import CellView, Choice, Phase, Scene, node_views, phase_of, pod_view
from ebbtide.cli.demo.scenery import Scenery
from ebbtide.config import Settings
from ebbtide.config.settings import DEFAULT_NAMESPACE
from ebbtide.errors import EbbtideError
from ebbtide.kube.client import Client
from ebbtide.service.supervisor import Supervisor
from ebbtide.sim.actors.autoscaler import Autoscaler, Policy
from ebbtide.sim.actors.binder import Binder
from ebbtide.sim.actors.cloud import Cloud
from ebbtide.sim.actors.growth import Expander, Growth
from ebbtide.sim.actors.kubelet import Kubelet
from ebbtide.sim.actors.scheduler import Scheduler
from ebbtide.sim.actors.spot import Spot
from ebbtide.sim.actors.workloads import Workloads
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.kinds import DEPLOYMENTS, NODES, PODS, STATEFUL_SETS
from ebbtide.sim.loaders.floor import PORT, Floor
from ebbtide.sim.loaders.worker import LoadWorker
from ebbtide.sim.stored import Stored
from ebbtide.vocabulary import FIELD_MANAGER_RECONCILER
from reconciler.main import Reconciler
from reconciler.place import Place

# The autoscaler copies nodes that are Ready for over a minute; before that it knows too little for a fair play.
_SETTLING: Final = 100.0
_HOST: Final = "ebbtide-demo"
# Where the reconciler answers load-data requests, if it does.
_FRONT: Final = f"http://{_HOST}:{PORT}"
# Seconds after which a worker forgets a task that has ended.
_COLLECTED_AFTER: Final = 20.0


class Stage:
    """The world of one play. `raised` builds one and starts everything in it."""

    def __init__(self, cluster: Cluster, seed: int, scenery: Scenery) -> None:
        rng = Random(seed)  # noqa: S311 - reproducible on purpose
        self.cluster = cluster
        self.storage = cluster.storage
        self.cloud = Cloud(self.storage, scenery.groups, rng)
        self.spot = Spot(self.storage, self.cloud)
        self.scheduler = Scheduler(self.storage, rng)
        self.workloads = Workloads(self.storage)
        self.kubelet = Kubelet(self.storage)
        self.binder = Binder(self.storage)
        policy = Policy(expander=Expander.PRIORITY, removes_nodes=False)
        self.autoscaler = Autoscaler(self.storage, self.cloud, rng, policy)
        self.floor = Floor(self.storage, scenery.namespace, lambda _pod: LoadWorker(collect_after=_COLLECTED_AFTER))
        self.front = _FRONT
        self.registry: CollectorRegistry | None = None
        self._scenery = scenery

    def set_up(self) -> None:
        """Everything in its place; nothing runs yet."""
        self.cluster.create(*self._scenery.objects())
        for _ in range(2):  # a Deployment makes its ReplicaSet first, which makes the pods
            self.workloads.step()
        homeless: dict[str, list[Stored]] = {}
        for pod in self.storage.scan(PODS):
            homeless.setdefault(pod.body["metadata"]["labels"]["app"], []).append(pod)
        for node, apps in self._scenery.opening.items():
            for app in apps:
                pod = homeless[app].pop(0)
                self.storage.bind(pod.namespace, pod.name, node)

    def actors(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What moves in the cluster besides the reconciler."""
        everybody = (self.kubelet, self.workloads, self.binder, self.scheduler, self.autoscaler)
        return tuple(actor.run() for actor in everybody)

    # --- what is seen --------------------------------------------------------------------------------------------

    def scene(self, observer: Observer) -> Scene:
        """How things stand."""
        now = self.storage.clock.now()
        pods = [pod.body for pod in self.storage.scan(PODS)]
        nodes = node_views((node.body for node in self.storage.scan(NODES)), pods, observer.signal_since, now)
        serving = sum(pod.phase is Phase.SERVING for node in nodes for pod in node.pods)
        groups = self.cloud.groups.values()
        return Scene(
            at=observer.elapsed,
            zones=tuple(sorted({group.zone for group in groups})),
            nodes=nodes,
            waiting=tuple(pod_view(pod, now) for pod in pods if phase_of(pod) is Phase.WAITING),
            cells=self._cells(observer),
            choice=self._choice(observer),
            ordered={group.zone: self.cloud.coming(group.name) for group in groups if self.cloud.coming(group.name)},
            held_back=dict(observer.held_back),
            serving=serving,
            wanted=self._wanted(),
        )

    def figure(self, metric: str, **labels: str) -> int:
        """One of the reconciler's figures, 0 where it gives none."""
        return 0 if self.registry is None else int(self.registry.get_sample_value(metric, labels) or 0)

    def _wanted(self) -> int:
        kinds = (STATEFUL_SETS, DEPLOYMENTS)
        return sum(int(each.body["spec"]["replicas"]) for kind in kinds for each in self.storage.scan(kind))

    def _choice(self, observer: Observer) -> Choice | None:
        for entry in reversed(self.autoscaler.diary):
            if isinstance(entry.decision, Growth):
                at = entry.at - self.storage.clock.now() + observer.elapsed
                return Choice(at, entry.decision) if at >= 0 else None
        return None

    def _cells(self, observer: Observer) -> tuple[CellView, ...]:
        """What the reconciler's own metrics say, with the reasons of its log."""
        if self.registry is None:
            return ()
        states = {}
        for family in self.registry.collect():
            if family.name == "noderebalance_block_state":
                states = {_cell(sample.labels): sample.labels["state"] for sample in family.samples if sample.value}
        return tuple(_told(observer.cells.get(cell), *cell, state) for cell, state in sorted(states.items()))


def _told(last: CellView | None, group: str, zone: str, state: str) -> CellView:
    """What the log said of the zone, if that was about the state that it is in."""
    return last if last is not None and last.state == state else CellView(group, zone, state)


def _cell(labels: dict[str, str]) -> tuple[str, str]:
    return labels["node_group"], labels["node_zone"]


@asynccontextmanager
async def raised(settings: Settings | None, seed: int, scenery: Scenery = DATABASE) -> AsyncIterator[Stage]:
    """A stage on which everything runs and has settled; without settings there is no reconciler on it.

    Raises the EbbtideError that the reconciler died of.
    """
    async with Cluster(seed=seed) as cluster:
        stage = Stage(cluster, seed, scenery)
        stage.set_up()
        try:
            async with _moving(stage, settings):
                await asyncio.sleep(_SETTLING)
                yield stage
        except ExceptionGroup as died:
            known, unforeseen = died.split(EbbtideError)
            if known is None or unforeseen is not None:
                raise
            raise _first(known) from died
        finally:
            await stage.floor.close()


@asynccontextmanager
async def _moving(stage: Stage, settings: Settings | None) -> AsyncIterator[None]:
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        acting = [group.create_task(actor) for actor in stage.actors()]
        if settings is not None:
            group.create_task(_reconcile(stage, settings, stopping), name="reconciler")
        try:
            yield
        finally:
            stopping.set()
            stage.cloud.close()
            for task in acting:
                task.cancel()


async def _reconcile(stage: Stage, settings: Settings, stopping: asyncio.Event) -> None:
    """The reconciler as its program runs it, but for the socket with metrics and probes."""
    access = stage.cluster.access()
    async with Client(access, field_manager=FIELD_MANAGER_RECONCILER, user_agent="ebbtide-demo") as client:
        network, place = stage.floor.network, Place(DEFAULT_NAMESPACE, _HOST, _FRONT)
        reconciler = Reconciler(settings, client, stage.cluster.clock, place, False, network.connector)
        if reconciler.front is not None:
            network.listen(_HOST, PORT, reconciler.front.connections)
        stage.registry = reconciler.registry
        await Supervisor(reconciler.health, stopping).run(*reconciler.parts(None))


def _first(group: ExceptionGroup[EbbtideError]) -> EbbtideError:
    error: EbbtideError | ExceptionGroup[EbbtideError] = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
