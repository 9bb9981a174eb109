"""Would the API server get an answer from us? Asked of our own port, by a handshake as it would do one.

For every entry of a webhook configuration that carries our CA the handshake trusts exactly the bundle that is live in
the cluster, and asks for the name that the API server asks for. So a leaf that has expired, one that nobody vouches
for, and a listener that is stuck all show, each in OpenSSL's own words.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import structlog

from certs.check import Served
from certs.live import configuration
from ebbtide.clock import Clock
from ebbtide.connecting import address, words_of
from ebbtide.exclusion.fields import mapping
from ebbtide.kube.errors import Forbidden, KubeError
from ebbtide.kube.store import Store
from webhook.tls import client_context

log = structlog.stdlib.get_logger(__name__)

_LOOK_EVERY: Final = 2.0
_LOOK_WHILE_NOT_READY: Final = 0.5
_WITHIN: Final = 5.0


class Client(NamedTuple):
    """As whom the API server calls: the name that it asks for, and the bundle that it trusts."""

    host: str
    bundle: bytes


@dataclass(frozen=True, slots=True)
class Registration:
    """What is read of a MutatingWebhookConfiguration: how the API server calls each of its entries.

    An entry with a URL and without a bundle trusts the CAs of the API server's machine. Of these nothing is known, and
    it is left out, where somebody else issues the certificate; for a CA of our own they do not vouch.
    """

    name: str
    uid: str
    resource_version: int = field(compare=False)
    clients: tuple[Client, ...]

    @property
    def key(self) -> str:
        return self.name


def registration(raw: Mapping[str, Any], *, own_ca: bool) -> Registration:
    """Reads a MutatingWebhookConfiguration object; `own_ca` says that the certificate is issued by a CA of ours."""
    facts = configuration(raw)
    hosts = [_host(mapping(entry, "clientConfig")) for entry in raw.get("webhooks") or ()]
    found = [(Client(host, entry.bundle), url) for (host, url), entry in zip(hosts, facts.entries, strict=True)]
    clients = tuple(client for client, url in found if client.bundle or own_ca or not url)
    return Registration(facts.name, facts.uid, facts.resource_version, clients)


def _host(config: Mapping[str, Any]) -> tuple[str, bool]:
    """The name, and whether it is that of a URL."""
    service = config.get("service")
    if service:
        return f"{service['name']}.{service['namespace']}.svc", False
    return urlsplit(str(config.get("url") or "")).hostname or "", True


class Certificate(Protocol):
    """The pair in use, and why there is none."""

    @property
    def current(self) -> Served | None: ...

    @property
    def problem(self) -> str: ...


class Readiness:
    """Looks every other second, more often while it is not ready, and at once when told that something has changed."""

    def __init__(
        self, address: tuple[str, int], certificate: Certificate, registered: Store[Registration], clock: Clock
    ) -> None:
        self._address = address
        self._certificate = certificate
        self._registered = registered
        self._clock = clock
        self._unknown = True
        self._problem = "no handshake has been tried yet"
        self._changed = asyncio.Event()
        registered.subscribe(lambda _old, _new: self.look_soon())

    def problem(self) -> str | None:
        """For the readiness probe."""
        return self._problem or None

    def look_soon(self) -> None:
        self._changed.set()

    def judge(self, error: KubeError) -> None:
        """Takes the failures of the watch of configurations: who may not see them does without."""
        log.warning("interrupted", problem=str(error))
        if isinstance(error, Forbidden):
            self._unknown = False
            self.look_soon()

    async def run(self) -> None:
        """For ever."""
        while True:
            self._changed.clear()
            problem = await self._look()
            if problem != self._problem:
                log.info("readiness of the port", problem=problem)
            self._problem = problem
            try:
                async with asyncio.timeout(_LOOK_WHILE_NOT_READY if problem else _LOOK_EVERY):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _look(self) -> str:
        served = self._certificate.current
        if served is None:
            return self._certificate.problem or "there is no certificate yet"
        if self._unknown and not self._registered.synced:
            return "the webhook configurations are not known yet"
        for name, client in self._clients(served):
            if not client.bundle and name:
                return f"{name} has no caBundle yet"
            problem = await self._handshake(client)
            if problem:
                return f"{name}: {problem}" if name else problem
        return self._dates(served)

    def _clients(self, served: Served) -> Iterable[tuple[str, Client]]:
        """Each way to be called once, with the name of a configuration that uses it; without any, our own."""
        found = {client: each.name for each in self._registered.values() for client in each.clients}
        return [(name, client) for client, name in found.items()] or [("", Client("", served.bundle))]

    async def _handshake(self, client: Client) -> str:
        try:
            context = client_context(client.bundle, check_name=bool(client.host))
            async with asyncio.timeout(_WITHIN):
                _, writer = await asyncio.open_connection(
                    *self._address, ssl=context, server_hostname=client.host or self._address[0]
                )
                writer.transport.abort()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except ssl.SSLError as error:
            return str(error.reason).lower().replace("_", " ") if error.reason else "the caBundle cannot be read"
        except TimeoutError:
            return f"no handshake in {_WITHIN:.0f} s"
        except OSError as error:
            return words_of(error, address(*self._address))
        return ""

    def _dates(self, served: Served) -> str:
        """What a handshake does not see that trusts everybody."""
        now = self._clock.now()
        return "" if served.leaf.not_before <= now < served.leaf.not_after else "the leaf is not valid now"


def own_address(listening: socket.socket) -> tuple[str, int]:
    """Where this process reaches its own port."""
    host, port = listening.getsockname()[:2]
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - compared, not bound
