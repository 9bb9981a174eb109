"""The agent as a program: plain flags, and how its parts are put together.

    http     metrics and probes
    act      finds out whether it may write, then stores notices
    watch    asks the metadata service

What it is to do is all in its flags; `ebbtide agent` makes them from the configuration and then becomes this program.
"""

import argparse
import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from ebbtide.agent.act import Act, OwnNode
from ebbtide.agent.imds import Metadata
from ebbtide.agent.report import Report
from ebbtide.agent.server import serving
from ebbtide.agent.watch import Watch
from ebbtide.kube.slim import SERVICE_ACCOUNT, Cluster, SlimClient, server_of_pod
from ebbtide.service import log
from ebbtide.service.ending import exit_code
from ebbtide.service.listening import ListenError, bind
from ebbtide.service.metrics import new_registry, product_version
from ebbtide.service.probes import Health, not_longer_than
from ebbtide.service.program import execute
from ebbtide.service.supervisor import Part, Supervisor
from ebbtide.vocabulary import FIELD_MANAGER_AGENT

# The key of the configuration that says where probes are served.
LISTEN_KEY: Final = "observability.listen"
# A turn takes 20 s at most (four answers that do not come), the pause after it another 20.
_STUCK_AFTER: Final = 300.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What the agent is to do. `interval` in seconds; `host` and `port` are where probes are served.

    `kubeconfig` and `context` are empty in a pod. `listen_origin` is who has set where to listen, for messages.
    """

    node: str
    signal_key: str
    endpoint: str
    interval: float
    host: str
    port: int
    listen_origin: str = ""
    kubeconfig: str = ""
    context: str = ""
    log_level: log.Level = "info"
    log_format: log.Format | None = None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Self:
        return cls(**vars(arguments))

    def flags(self) -> list[str]:
        """The flags that say the same."""
        given = {
            "--node": self.node,
            "--signal-key": self.signal_key,
            "--endpoint": self.endpoint,
            "--interval": str(self.interval),
            "--host": self.host,
            "--port": str(self.port),
            "--listen-origin": self.listen_origin,
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--log-level": self.log_level,
            "--log-format": self.log_format or "",
        }
        return [f"{flag}={value}" for flag, value in given.items() if value]


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m ebbtide.agent`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m ebbtide.agent",
        description="What 'ebbtide agent' becomes once it has read the configuration.",
        allow_abbrev=False,
    )
    for flag in ("--node", "--signal-key", "--endpoint", "--host"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--interval", type=float, required=True, metavar="SECONDS")
    parser.add_argument("--port", type=int, required=True)
    for flag in ("--listen-origin", "--kubeconfig", "--context"):
        parser.add_argument(flag, default="")
    parser.add_argument("--log-level", choices=log.LEVELS, default="info")
    parser.add_argument("--log-format", choices=log.FORMATS)
    return exit_code("agent", partial(_start, Orders.of(parser.parse_args(argv))))


def _start(orders: Orders) -> None:
    log.configure(orders.log_level, orders.log_format)
    execute(partial(_program, orders))


async def _program(orders: Orders, stopping: asyncio.Event) -> None:
    with _listening(orders) as listening:
        async with _cluster(orders, os.environ) as cluster:
            await run(orders, cluster, listening, stopping)


async def run(orders: Orders, cluster: Cluster, listening: socket.socket, stopping: asyncio.Event) -> None:
    """The whole agent, until `stopping` is set or it is cancelled.

    Raises EbbtideError: ClusterAccessError when the cluster refuses what there is no use without.
    """
    health, registry = Health(), new_registry("agent")
    report = Report(registry)
    act = Act(OwnNode(cluster, orders.node, orders.signal_key), report, time.time)
    watch = Watch(Metadata(orders.endpoint, report.asked), orders.interval, act.tell)
    health.ready_while("node", act.problem)
    health.ready_while("metadata", watch.problem)
    health.alive_while("watch", not_longer_than(_STUCK_AFTER, watch.silence, "no question was asked"))

    async def serve() -> None:
        async with serving(listening, registry, health):
            await asyncio.get_running_loop().create_future()

    await Supervisor(health, stopping).run(Part("http", serve), Part("act", act.run), Part("watch", watch.run))


def _listening(orders: Orders) -> socket.socket:
    try:
        return bind(orders.host, orders.port, LISTEN_KEY)
    except ListenError as error:
        raise error.set_by(orders.listen_origin) from error


@asynccontextmanager
async def _cluster(orders: Orders, environ: Mapping[str, str]) -> AsyncIterator[Cluster]:
    """The API server, by the slim client in a pod. Raises UsageError, ClusterAccessError."""
    agent = f"{FIELD_MANAGER_AGENT}/{product_version()}"
    named = orders.kubeconfig or orders.context or environ.get("KUBECONFIG")
    server = "" if named else server_of_pod(environ)
    if server:
        async with SlimClient(server, SERVICE_ACCOUNT, agent) as slim:
            yield slim
        return
    # These take 25 MB, and are for whoever tries the agent outside of a pod.
    from ebbtide.kube.access import discover  # noqa: PLC0415
    from ebbtide.kube.client import Client  # noqa: PLC0415

    kubeconfig = Path(orders.kubeconfig) if orders.kubeconfig else None
    access = await discover(kubeconfig, orders.context or None, environ)
    async with Client(access, field_manager=FIELD_MANAGER_AGENT, user_agent=agent) as client:
        yield client
