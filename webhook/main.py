"""The webhook as a program: its flags, and how its parts are put together.

    http          metrics and probes, first up and last down: it tells why the webhook is not ready
    state         asks for the permissions, then keeps what is known of the cluster up to date
    certificate   finds the pair that is to be served, and each that follows
    readiness     calls its own port as the API server would
    witness       says on the own pod which CAs are known
    admission     serves, and in the end drains

When it is to stop it is not ready from that moment, answers for `drain` as before but ends each connection with the
answer, then sends who still comes elsewhere for a moment, and closes when the last answer is out.
"""

import argparse
import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

import structlog

from certs.reloads import Reloads
from certs.watch import source_of
from ebbtide import vocabulary
from ebbtide.clock import Clock, SystemClock
from ebbtide.config import Settings
from ebbtide.kube.access import Access
from ebbtide.kube.client import Client
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import MUTATING_WEBHOOKS
from ebbtide.kube.store import Store
from ebbtide.service.arguments import Common, add_common
from ebbtide.service.connection import ApiFigures, StoreAges
from ebbtide.service.ending import exit_code
from ebbtide.service.listening import bind
from ebbtide.service.metrics import new_registry, product_version
from ebbtide.service.parser import Parser
from ebbtide.service.permissions import persistence, wait_until_permitted
from ebbtide.service.probes import Health
from ebbtide.service.program import execute
from ebbtide.service.server import application, serving
from ebbtide.service.supervisor import Part, Supervisor
from webhook.app import Admission
from webhook.needs import needs
from webhook.readiness import Readiness, Registration, own_address, registration
from webhook.report import Report
from webhook.serving import Connections, Serving
from webhook.state import State, rules_of
from webhook.tls import read_client_ca, server_context
from webhook.witness import OwnPod, Witness
from webhook.workers import Workers, on_parents_end

log = structlog.stdlib.get_logger(__name__)

# A refusal after the start may be a rotation of credentials or an upgrade of roles under way.
_REFUSALS_MAY_LAST: Final = 60.0
# After the drain only connections that were idle all the time are left: how long one more request on them is answered.
_LAST_CALLS: Final = 1.5
_LAST_ANSWERS: Final = 2.0
# What the other parts need to end, after the drain.
_UNWINDING: Final = 1.0
# Each follows the whole cluster; what more would bring, replicas bring better.
_MOST_WORKERS: Final = 64


@dataclass(frozen=True, slots=True)
class Ports:
    """Listening sockets: of admission, and of metrics and probes."""

    admission: socket.socket
    health: socket.socket

    @classmethod
    def of(cls, settings: Settings) -> "Ports":
        """Where the settings say. Raises ListenError."""
        rules = settings.webhook
        health = bind(rules.health_listen.host, rules.health_listen.port, "webhook.health-listen")
        return cls(bind(rules.listen.host, rules.listen.port, "webhook.listen"), health)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `ebbtide webhook` and `python -m webhook`."""
    add_common(parser)
    parser.add_argument(
        "--client-ca",
        type=Path,
        metavar="PATH",
        help="serve only clients with a certificate of this CA (PEM; read once)",
    )
    parser.add_argument(
        "--workers", type=_count, default=1, metavar="N", help="processes on the port, each with watches of its own (1)"
    )


def start(arguments: argparse.Namespace) -> None:
    """Runs until SIGTERM or SIGINT. Raises EbbtideError."""
    common = Common.of(arguments)
    client_ca = "" if arguments.client_ca is None else read_client_ca(arguments.client_ca)
    common.configure_logs()
    if arguments.workers == 1:
        _work(arguments, client_ca)
        return
    with common.configured() as settings:
        execute(partial(_mind, settings, arguments, client_ca), grace=grace(settings) + _UNWINDING)


def _work(arguments: argparse.Namespace, client_ca: str, ports: Ports | None = None) -> None:
    """The webhook in this process; with ports it is one of several workers."""
    common = Common.of(arguments)
    with common.configured() as settings:

        async def program(stopping: asyncio.Event) -> None:
            if ports is not None:
                on_parents_end(stopping.set)
            await run(settings, await common.access(), client_ca=client_ca, stopping=stopping, ports=ports)

        execute(program, grace=grace(settings), loop_factory=fastest_loop())


def work(arguments: argparse.Namespace, client_ca: str, admission: socket.socket, health: socket.socket) -> None:
    """The whole life of a worker process."""
    Common.of(arguments).configure_logs()
    sys.exit(exit_code("webhook", partial(_work, arguments, client_ca, Ports(admission, health))))


async def _mind(settings: Settings, arguments: argparse.Namespace, client_ca: str, stopping: asyncio.Event) -> None:
    """Several workers, minded by this process."""
    ports, health = Ports.of(settings), Health()
    with ports.health, ports.admission:
        workers = Workers(arguments.workers, partial(work, arguments, client_ca), ports.admission, health)
        supervisor = Supervisor(health, stopping, grace=grace(settings) + _UNWINDING)
        await supervisor.run(*workers.parts(ports.health))


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_MOST_WORKERS}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m webhook`; returns the exit code."""
    parser = Parser(prog="python -m webhook")
    add_arguments(parser)
    return exit_code("webhook", lambda: start(parser.parse_args(argv)))


def grace(settings: Settings) -> float:
    """How long an orderly end takes at most, in seconds."""
    return settings.webhook.drain + _LAST_CALLS + _LAST_ANSWERS + _UNWINDING


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed; None for the interpreter's own."""
    try:
        found: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None
    return found


async def run(
    settings: Settings,
    access: Access,
    *,
    client_ca: str = "",
    stopping: asyncio.Event | None = None,
    clock: Clock | None = None,
    ports: Ports | None = None,
) -> None:
    """The whole webhook, until `stopping` is set or it is cancelled.

    Serves on `ports`, by default those of the settings; with `client_ca` (PEM) only clients that these vouch for.
    Raises EbbtideError: ClusterAccessError when the cluster does not accept the credentials or refuses something that
    is needed.
    """
    listening = ports or Ports.of(settings)
    with listening.health, listening.admission:
        async with Client(
            access,
            field_manager=vocabulary.FIELD_MANAGER_CERTS,
            user_agent=f"ebbtide-webhook/{product_version()}",
        ) as client:
            webhook = Webhook(settings, client, clock or SystemClock(), listening, client_ca)
            supervisor = Supervisor(webhook.health, stopping or asyncio.Event(), grace=grace(settings))
            await supervisor.run(*webhook.parts())


class Webhook:
    """The parts, and what they share."""

    def __init__(self, settings: Settings, client: Client, clock: Clock, ports: Ports, client_ca: str = "") -> None:
        self.health = Health()
        self.registry = new_registry("webhook")
        self._ages = StoreAges(self.registry)
        ApiFigures(self.registry, client.traffic)
        self._settings = settings
        self._client = client
        self._clock = clock
        self._ports = ports
        self._client_ca = client_ca
        self._namespace = settings.home
        self._pod = OwnPod.of(os.environ)
        self._state = State(settings)
        self._report = Report(self.registry, self._state.age)
        self._report.follow(self._state.blocked)
        self._source = source_of(settings.certs, self._namespace, client, clock, Reloads(self.registry))
        self._registered: Store[Registration] = Store(
            partial(registration, own_ca=settings.certs.mode == "self-managed")
        )
        self._readiness = Readiness(own_address(ports.admission), self._source, self._registered, clock)
        self._witness = Witness(client, self._pod)
        self._stopping = asyncio.Event()
        self._waiting_for = "the cluster has not been asked yet"
        self._watch_health()

    def parts(self) -> tuple[Part, ...]:
        """In the order of their start."""
        return (
            Part("http", self._serve_health),
            Part("state", self._follow),
            Part("certificate", self._source.run),
            Part("readiness", self._readiness.run),
            Part("witness", self._witness.run),
            Part("admission", self._admit, self._stopping.set),
        )

    async def _serve_health(self) -> None:
        async with serving(application(self.registry, self.health), self._ports.health):
            await asyncio.get_running_loop().create_future()

    async def _follow(self) -> None:
        asked = needs(self._settings, self._namespace, self._pod.name if self._pod else "")
        await wait_until_permitted(self._client, asked, self._wait_for)
        self._wait_for("")
        judged = partial(persistence, self._client, within=_REFUSALS_MAY_LAST)
        async with asyncio.TaskGroup() as group:
            for watch in (*self._state.watches(self._client, judged), self._registrations()):
                self._ages.follow(watch)
                group.create_task(watch.run(), name=watch.name)

    def _registrations(self) -> Reflector[Registration]:
        selector = self._settings.certs.webhook_configuration_selector
        return Reflector(
            self._client,
            MUTATING_WEBHOOKS,
            self._registered,
            on_problem=self._readiness.judge,
            label_selector=selector,
        )

    async def _admit(self) -> None:
        rules, admission = self._settings.webhook, self._admission()
        connections = Connections(admission, rules.max_in_flight, rules.keep_alive, self._clock.now)
        server = Serving(connections, self._ports.admission)
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(server.accept()), group.create_task(self._present(server))]
            await self._stopping.wait()
            admission.drain()
            # Nobody is sent to one that has never been able to answer.
            if server.presented and not self._state.lacking():
                log.info("draining", seconds=rules.drain)
                await asyncio.sleep(rules.drain)
                admission.leave()
                await asyncio.sleep(_LAST_CALLS)
            for task in beside:
                task.cancel()
            await server.close(_LAST_ANSWERS)

    async def _present(self, server: Serving) -> None:
        """Serves every pair that comes."""
        async for served in self._source.updates():
            try:
                context = server_context(served.cert_pem, served.key_pem, self._client_ca)
            except ssl.SSLError as error:
                log.error("certificate cannot be served", problem=str(error.reason))
                continue
            server.present(context)
            self._witness.tell(served.mark)
            self._readiness.look_soon()

    def _admission(self) -> Admission:
        rules = self._settings.webhook
        return Admission(
            self._state,
            rules_of(self._settings),
            self._report,
            largest=rules.max_body_size,
            most_at_once=rules.max_in_flight,
        )

    def _wait_for(self, reason: str) -> None:
        self._waiting_for = reason

    def _watch_health(self) -> None:
        ready = self.health.ready_while
        ready("cluster", lambda: self._waiting_for or None)
        ready("state", lambda: f"not read yet: {lacking}" if (lacking := self._state.lacking()) else None)
        ready("certificate", self._readiness.problem)
        ready("stopping", lambda: "draining" if self._stopping.is_set() else None)
