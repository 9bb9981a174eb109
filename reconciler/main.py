"""The reconciler as a program: its flags, and how its parts are put together.

    http       status page, metrics and probes, first up and last down: it tells why the others are not ready
    nodes      asks for the permissions, then keeps the store of nodes up to date, leading or not
    load data  answers load-data requests, leading or not, where the worker scaler runs
    election   stands for the lease once the nodes are known; leading runs the controllers

The election ends before load data is served no more, so that clients can be sent to the next leader.

With `--dry-run` the controllers run without a lease and without a permit to write; load-data requests are not answered.
"""

import argparse
import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from math import isinf
from typing import Final

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge

from certs.consult import Child, Consult, here
from ebbtide import shapes, vocabulary
from ebbtide.clock import Clock, SystemClock
from ebbtide.config import Settings
from ebbtide.kube.access import Access
from ebbtide.kube.client import SILENT_AFTER, Client
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import NODES
from ebbtide.kube.store import Store
from ebbtide.model import NodeFacts, node_facts
from ebbtide.service.arguments import Common, add_common
from ebbtide.service.connection import ApiFigures, StoreAges
from ebbtide.service.ending import exit_code
from ebbtide.service.metrics import new_registry, product_version
from ebbtide.service.parser import Parser
from ebbtide.service.permissions import persistence, wait_until_permitted
from ebbtide.service.probes import Health, not_longer_than
from ebbtide.service.program import execute
from ebbtide.service.server import application, serving
from ebbtide.service.supervisor import Part, Supervisor
from reconciler import controllers, state
from reconciler.engine.context import Connect, Context, sockets
from reconciler.engine.leading import Leading
from reconciler.engine.lease import Elector, Term, Timing
from reconciler.engine.lease_lock import Candidacy
from reconciler.engine.shared import Shared
from reconciler.needs import needs
from reconciler.page.serve import routes as page_routes
from reconciler.place import Place, Ports
from reconciler.scaler.front import wiring as front
from reconciler.scaler.front.follower import OnLease

# A refusal after the start may be a rotation of credentials or an upgrade of roles under way.
_REFUSALS_MAY_LAST: Final = 60.0
# Two silent streams in a row: what the store says may be out of date. In a dry run, which has no lease to ask for
# every few seconds, one silent stream is all that tells of a cluster that is away.
_NODES_MAY_BE_OLD: Final = 2 * SILENT_AFTER
_NODES_MAY_BE_OLD_DRY: Final = SILENT_AFTER
# No look at anything takes this long: requests are bounded, and the client's longest pause is a minute.
_STUCK_AFTER: Final = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `ebbtide reconciler` and `python -m reconciler`."""
    add_common(parser)
    parser.add_argument("--dry-run", action="store_true", help="decide and report, write nothing, take no lease")


def start(arguments: argparse.Namespace) -> None:
    """Runs until SIGTERM or SIGINT. Raises EbbtideError."""
    common = Common.of(arguments)
    common.configure_logs()

    async def program(stopping: asyncio.Event) -> None:
        with common.configured() as settings:
            await run(settings, await common.access(), dry_run=arguments.dry_run, stopping=stopping)

    execute(program)


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m reconciler`; returns the exit code."""
    parser = Parser(prog="python -m reconciler")
    add_arguments(parser)
    return exit_code("reconciler", lambda: start(parser.parse_args(argv)))


async def run(
    settings: Settings,
    access: Access,
    *,
    dry_run: bool = False,
    stopping: asyncio.Event | None = None,
    clock: Clock | None = None,
    listening: socket.socket | None = None,
) -> None:
    """The whole reconciler, until `stopping` is set or it is cancelled.

    Serves on `listening`, by default on the address of the settings. Raises EbbtideError: ClusterAccessError when the
    cluster does not accept the credentials or refuses something that is needed.
    """
    ports = Ports.of(settings, listening, dry_run=dry_run)
    with ports:
        async with Client(
            access,
            field_manager=vocabulary.FIELD_MANAGER_RECONCILER,
            user_agent=f"ebbtide-reconciler/{product_version()}",
        ) as client:
            place = Place.of(settings, os.environ, ports.load_data)
            reconciler = Reconciler(settings, client, clock or SystemClock(), place, dry_run, consult=Child())
            await Supervisor(reconciler.health, stopping or asyncio.Event()).run(*reconciler.parts(ports))


class Reconciler:
    """The parts, and what they share."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        clock: Clock,
        place: Place,
        dry_run: bool,
        connect: Connect = sockets,
        consult: Consult = here,
    ) -> None:
        """`connect` makes connections to what is not the API server: workers, and other replicas.

        `consult` answers what is asked about certificates.
        """
        self.health = Health()
        self.registry = new_registry("reconciler")
        self._settings = settings
        self._client = client
        self._clock = clock
        self._place = place
        self._dry_run = dry_run
        self._connect = connect
        self._consult = consult
        self._waiting_for = "the cluster has not been asked yet"
        labels = settings.node_rebalance.labels
        self._nodes: Store[NodeFacts] = Store(lambda raw: node_facts(raw, labels), shapes.Node)
        self._elector = Elector(client, clock, self._candidacy(), self._timing())
        self._permit: Callable[[], bool] = (lambda: False) if dry_run else self._elector.permit
        self._stopping = asyncio.Event()
        self._one_state = asyncio.Lock()
        permitted = client.permitted(self._permit)
        self._ages = StoreAges(self.registry)
        shared = Shared(permitted, clock, place.identity, self._ages, dry_run=dry_run)
        self._recorder = shared.recorder
        self._controllers = controllers.build(self._context(permitted, shared))
        self._leading = Leading(self._controllers.runnables, shared.parts)
        self.front = self._build_front(connect)
        self._watch_health()
        ApiFigures(self.registry, client.traffic)
        _expose(self.registry, self._permit)

    def parts(self, ports: Ports | None) -> tuple[Part, ...]:
        """In the order of their start. Without ports nothing is served, but for what is brought to `front`."""
        http = () if ports is None else (Part("http", partial(self._serve, ports.http)),)
        return (
            *http,
            Part("nodes", self._follow_nodes),
            *self._load_data(None if ports is None else ports.load_data),
            Part("dry run", self._look_only, self._stopping.set)
            if self._dry_run
            else Part("election", self._stand, self._stop_standing),
        )

    def _load_data(self, listening: socket.socket | None) -> tuple[Part, ...]:
        if self.front is None:
            return ()
        return (Part("load data", partial(self.front.run, listening), self.front.stop),)

    async def _serve(self, listening: socket.socket) -> None:
        routes = [*page_routes(), web.get("/api/v1/state", self._tell_state)]
        async with serving(application(self.registry, self.health, routes), listening):
            await asyncio.get_running_loop().create_future()

    async def _tell_state(self, _request: web.Request) -> web.Response:
        """What is known; 503 with the reason before the nodes are.

        Written in a thread: with thousands of nodes it takes longer than the lease or a probe should have to wait.
        """
        if not self._nodes.synced:
            return web.json_response({"error": self._nodes_problem()}, status=503)
        async with self._one_state:
            rules, now = self._settings.node_rebalance, self._clock.now()
            make = partial(state.document, self._nodes.values(), self._elector.observed, self._known(), rules, now)
            body = await asyncio.to_thread(lambda: orjson.dumps(make()))
        return web.Response(body=body, content_type="application/json")

    def _known(self) -> state.Known:
        """What zone rebalance says of each cell while it works, the worker scaler of workers, and both did lately."""
        works, rebalances = self._dry_run or self._permit(), self._controllers.cells is not None
        source = state.Source.DRY_RUN if self._dry_run else state.Source.LEADER
        return state.Known(
            cells=dict(self._controllers.cells or {}) if works else {},
            source=source if works and rebalances else state.Source.NODES,
            workers=self._controllers.workers(),
            decisions=self._recorder.latest if works and self._recorder is not None else (),
            answering="" if self._dry_run else self._place.identity,
            nodes_age=self._nodes.age(),
        )

    async def _follow_nodes(self) -> None:
        place = self._place
        asked = needs(self._settings, place.namespace, dry_run=self._dry_run, deployment=place.deployment)
        await wait_until_permitted(self._client, asked, self._wait_for)
        self._wait_for("")
        judge = persistence(self._client, self._nodes.age, _REFUSALS_MAY_LAST)
        await self._ages.follow(Reflector(self._client, NODES, self._nodes, on_problem=judge)).run()

    async def _stand(self) -> None:
        if await self._nodes_known():
            await self._elector.run(self._leading)

    async def _look_only(self) -> None:
        if await self._nodes_known():
            await self._leading(Term(0, self._stopping))

    def _stop_standing(self) -> None:
        if self.front is not None:
            self.front.leave()
        self._stopping.set()
        self._elector.stop()

    async def _nodes_known(self) -> bool:
        """Waits for the first complete list; False when the program is to stop before."""
        waits = [asyncio.ensure_future(self._nodes.wait_synced()), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return not self._stopping.is_set()

    def _wait_for(self, reason: str) -> None:
        self._waiting_for = reason

    def _candidacy(self) -> Candidacy:
        place, url = self._place, self._place.load_data_url
        told = {vocabulary.LOAD_DATA_URL_ANNOTATION: url} if url else {}
        lease = self._settings.leader_election.lease_name
        return Candidacy(place.namespace, lease, place.identity, told, place.deployment)

    def _build_front(self, connect: Connect) -> front.Service | None:
        """None where the worker scaler is off, and in a dry run, which has nothing to promise."""
        desk, place = self._controllers.scaler, self._place
        if desk is None or self._dry_run:
            return None
        leadership = OnLease(self._elector, place.identity, place.load_data_url)
        around = front.Surroundings(desk, leadership, self._elector.look, connect, self.registry)
        return front.Service(self._settings.worker_scaler, around)

    def _timing(self) -> Timing:
        rules = self._settings.leader_election
        return Timing(rules.lease_duration, rules.renew_deadline, rules.retry_period)

    def _context(self, permitted: Client, shared: Shared) -> Context:
        return Context(
            settings=self._settings,
            client=permitted,
            nodes=self._nodes,
            shared=shared,
            ages=self._ages,
            registry=self.registry,
            clock=self._clock,
            namespace=self._place.namespace,
            identity=self._place.identity,
            deployment=self._place.deployment,
            dry_run=self._dry_run,
            connect=self._connect,
            consult=self._consult,
        )

    def _watch_health(self) -> None:
        health, rules = self.health, self._settings.leader_election
        health.ready_while("cluster", lambda: self._waiting_for or None)
        health.ready_while("nodes", self._nodes_problem)
        if not self._dry_run:
            health.ready_while("lease", self._lease_problem)
            limit = 3 * rules.lease_duration
            health.alive_while("election", not_longer_than(limit, self._elector.stalled, "no step"))
        for controller in self._controllers.runnables:
            stuck = not_longer_than(_STUCK_AFTER, controller.longest, "the same work is under way")
            health.alive_while(f"controller {controller.name}", stuck)

    def _nodes_problem(self) -> str | None:
        if not self._nodes.synced:
            return "the list of nodes is not complete yet"
        limit = _NODES_MAY_BE_OLD_DRY if self._dry_run else _NODES_MAY_BE_OLD
        return not_longer_than(limit, self._nodes.age, "nothing heard of the nodes")()

    def _lease_problem(self) -> str | None:
        """Leading or not, a replica asks at the latest a little after the lease that it has seen would have run out."""
        rules, silence = self._settings.leader_election, self._elector.answered_for()
        if silence <= rules.lease_duration + rules.retry_period:
            return None
        since = "not answered yet" if isinf(silence) else f"no answer for {silence:.0f} s"
        return f"{since}: {self._elector.problem}" if self._elector.problem else since


def _expose(registry: CollectorRegistry, permit: Callable[[], bool]) -> None:
    leader = Gauge("ebbtide_leader", "1 while this process may write, 0 otherwise.", registry=registry)
    leader.set_function(lambda: float(permit()))
