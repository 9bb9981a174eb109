"""Plays a scenario from curtain to curtain, and says how it ended."""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from ebbtide.cli.demo.chronicle import Chronicle, Moment, What
from ebbtide.cli.demo.load.loading import Loading
from ebbtide.cli.demo.load.manifests import WORKERS
from ebbtide.cli.demo.load.tables import Table
from ebbtide.cli.demo.manifests import DATABASE, NAMESPACE
from ebbtide.cli.demo.observer import LogReader, Observer
from ebbtide.cli.demo.promises import Evidence, Promise, everything_serves
from ebbtide.cli.demo.scenario import RISKY, Scenario
from ebbtide.cli.demo.scene import Scene
from ebbtide.cli.demo.stage import Stage, raised
from ebbtide.cli.demo.words import listed
from ebbtide.config import Settings
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.config.scaler import WorkerScaler
from ebbtide.counting import count
from ebbtide.service import log
from ebbtide.sim.kinds import DEPLOYMENTS
from ebbtide.sim.storage import IN_PROCESS
from ebbtide.sim.stored import Object
from ebbtide.sim.time import SimulatedLoop, simulate

# How often (simulated seconds) it is looked whether the play is over.
_LOOK: Final = 1.0
# The picture stays for a moment after everything has come true.
_EPILOGUE: Final = 12.0
# A play without a reconciler has no promise to keep; it is watched until its pods serve again, or this long.
_LIMIT_ALONE: Final = 1800.0


class Spectator(Protocol):
    """Whoever watches. `moment` hears what happens when it happens; `watch` runs beside the play."""

    def moment(self, moment: Moment, /) -> None: ...

    async def watch(self, look: Callable[[], Scene], /) -> None: ...


@dataclass(frozen=True, slots=True)
class Ending:
    """`broken` are the promises that did not hold, each with what is against it. `late`: the limit was reached."""

    scenario: Scenario
    evidence: Evidence
    broken: tuple[tuple[Promise, str], ...]
    late: bool

    @property
    def lasted(self) -> float:
        return self.evidence.scene.at


class Nobody:
    """The spectator of a rehearsal."""

    def moment(self, _moment: Moment, /) -> None:
        """Does not listen."""

    async def watch(self, _look: Callable[[], Scene], /) -> None:
        """Does not look."""
        await asyncio.get_running_loop().create_future()


def play(scenario: Scenario, seed: int, speed: float | None, spectator: Spectator) -> Ending:
    """Plays with a reconciler. `speed` is simulated seconds in one real second, None for as fast as it goes.

    Takes over the log of the process: what the reconciler logs becomes part of the chronicle.
    """
    rules = NodeRebalance(max_rebalance_signal_time=scenario.patience)
    settings = Settings(node_rebalance=rules, worker_scaler=scenario.scaler or WorkerScaler())
    return _simulated(scenario, settings, seed, speed, spectator)


def rehearse(scenario: Scenario, seed: int) -> Ending:
    """The same without a reconciler, at once and unseen."""
    return _simulated(scenario, None, seed, None, Nobody())


def _simulated(
    scenario: Scenario, settings: Settings | None, seed: int, speed: float | None, spectator: Spectator
) -> Ending:
    # Whatever spreads its retries takes them from here, so that a seed decides those, too.
    random.seed(seed)
    return simulate(_Play(scenario, settings, spectator).run(seed, speed))


class _Play:
    """One performance."""

    def __init__(self, scenario: Scenario, settings: Settings | None, spectator: Spectator) -> None:
        self._scenario = scenario
        self._settings = settings
        self._spectator = spectator
        self._chronicle = Chronicle(spectator.moment)
        self._observer: Observer | None = None

    async def run(self, seed: int, speed: float | None) -> Ending:
        """Raises what the script or the spectator died of, or the EbbtideError that the reconciler did."""
        log.configure("info", "json", LogReader(self._heard))
        rules = self._scenario.scaler
        async with raised(self._settings, seed, DATABASE if rules is None else WORKERS) as stage:
            observer = self._observer = Observer(stage.storage, stage.autoscaler.diary, self._chronicle)
            loading = None if rules is None else Loading(stage, observer, rules, seed)
            look = partial(_look, stage, observer, loading)
            _set_speed(speed)
            lasting = [asyncio.ensure_future(self._spectator.watch(look))]
            if loading is not None:
                lasting.append(asyncio.ensure_future(loading.run()))
            scripted = asyncio.ensure_future(self._scenario.script(_Hands(stage, observer, loading)))
            try:
                await self._until_over(look, observer, scripted, lasting)
                scene = look()
            finally:
                self._observer = None
                observer.close()
                _set_speed(None)
                await _ended(scripted, *lasting)
                if loading is not None:
                    loading.close()
        for task in (scripted, *lasting):
            if not task.cancelled():
                task.result()
        return self._ending(scene)

    def _heard(self, line: Any) -> None:
        if self._observer is not None:
            self._observer.heard(line)

    async def _until_over(
        self,
        look: Callable[[], Scene],
        observer: Observer,
        scripted: asyncio.Future[None],
        lasting: Sequence[asyncio.Future[None]],
    ) -> None:
        limit = self._scenario.limit if self._settings is not None else _LIMIT_ALONE
        while observer.elapsed < limit and not any(task.done() for task in lasting):
            await asyncio.sleep(_LOOK)
            observer.read_diary()
            if scripted.done() and not any(self._against(self._awaited(), look())):
                await asyncio.sleep(_EPILOGUE)
                return

    def _awaited(self) -> tuple[Promise, ...]:
        return self._scenario.awaited if self._settings is not None else (everything_serves(),)

    def _against(self, promises: Iterable[Promise], scene: Scene) -> Iterable[tuple[Promise, str]]:
        evidence = Evidence(self._chronicle, scene)
        for promise in promises:
            missing = promise.missing(evidence)
            if missing:
                yield promise, missing

    def _ending(self, scene: Scene) -> Ending:
        late = tuple(self._against(self._awaited(), scene))
        kept = self._scenario.kept if self._settings is not None else ()
        broken = (*late, *self._against(kept, scene))
        return Ending(self._scenario, Evidence(self._chronicle, scene), broken, late=bool(late))


class _Hands:
    """What the script of a scenario moves."""

    def __init__(self, stage: Stage, observer: Observer, loading: Loading | None) -> None:
        self._stage = stage
        self._observer = observer
        self._loading = loading

    async def at(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds - self._observer.elapsed))

    def signal(self, *nodes: str) -> None:
        self._observer.scripted(
            What.AWS, f"recommends to rebalance {listed(nodes)}; the termination handler taints and cordons"
        )
        for node in nodes:
            self._stage.spot.recommend(node)

    def withdraw(self, *nodes: str) -> None:
        self._observer.scripted(What.AWS, f"takes the recommendation for {listed(nodes)} back")
        for node in nodes:
            self._stage.spot.withdraw(node)

    async def take(self, *nodes: str) -> None:
        self._observer.scripted(
            What.AWS, f"gives {listed(nodes)} two minutes' notice, and has no Spot capacity left in {RISKY}"
        )
        for group in self._stage.cloud.groups.values():
            if group.zone == RISKY:
                self._stage.cloud.exhaust(group.name)
        await asyncio.gather(*(self._stage.spot.interrupt(node) for node in nodes))

    def scale(self, deployment: str, replicas: int) -> None:
        self._observer.scripted(What.SCALED, f"scales {deployment} to {count(replicas, 'replica')}")

        def change(body: Object) -> Object:
            body["spec"]["replicas"] = replicas
            return body

        self._stage.storage.modify(DEPLOYMENTS, deployment, NAMESPACE, change, IN_PROCESS)

    def load(self, *tables: Table) -> None:
        assert self._loading is not None, "nothing answers load-data requests"
        self._loading.begin(*tables)

    def restart(self, table: str) -> None:
        assert self._loading is not None, "nothing answers load-data requests"
        self._loading.restart(table)


def _look(stage: Stage, observer: Observer, loading: Loading | None) -> Scene:
    scene = stage.scene(observer)
    return scene if loading is None else replace(scene, load=loading.scene())


async def _ended(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _set_speed(speed: float | None) -> None:
    loop = asyncio.get_running_loop()
    if isinstance(loop, SimulatedLoop):
        loop.speed = speed
