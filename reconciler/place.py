"""Where one reconciler lives: the sockets that it listens on, and what it is called.

Whoever puts its parts together is handed both, so that tests and the demo can give it others than the settings and the
environment do.
"""

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import uuid4

from ebbtide.config import Settings
from ebbtide.service.listening import bind
from reconciler.scaler.front.follower import advertised


@dataclass(frozen=True, slots=True)
class Ports:
    """Listening sockets: of metrics and probes, and of the front for load data where there is one."""

    http: socket.socket
    load_data: socket.socket | None

    @classmethod
    def of(cls, settings: Settings, http: socket.socket | None, *, dry_run: bool) -> "Ports":
        """Where the settings say, with `http` given or not. Raises ListenError."""
        listen, rules = settings.observability.listen, settings.worker_scaler
        with ExitStack() as undo:
            made = undo.enter_context(http or bind(listen.host, listen.port, "observability.listen"))
            front = None
            if rules.run and not dry_run:
                front = bind(rules.listen.host, rules.listen.port, "worker-scaler.listen")
            undo.pop_all()
        return cls(made, front)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_why: object) -> None:
        for each in (self.http, self.load_data):
            if each is not None:
                each.close()


@dataclass(frozen=True, slots=True)
class Place:
    """Where this process lives and what it is called in the election.

    `load_data_url` is where it answers load-data requests, "" where it does not or nobody could say. `deployment` is
    what it was deployed by, the owner of its Lease and its certificates; "" without one.
    """

    namespace: str
    identity: str
    load_data_url: str = ""
    deployment: str = ""

    @classmethod
    def of(cls, settings: Settings, environ: Mapping[str, str], load_data: socket.socket | None = None) -> "Place":
        """A pod is called by its name; anything else by host and chance, so that two on one host differ."""
        rules = settings.worker_scaler
        return cls(
            namespace=settings.home,
            identity=environ.get("POD_NAME") or f"{socket.gethostname()}_{uuid4().hex[:8]}",
            load_data_url="" if load_data is None else advertised(rules, environ, load_data.getsockname()[1]),
            deployment=environ.get("DEPLOYMENT_NAME", ""),
        )
