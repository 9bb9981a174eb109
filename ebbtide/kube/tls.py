"""TLS contexts and connection pools as the API server needs them."""

import socket
import ssl
from dataclasses import dataclass
from typing import Final

import aiohttp

from ebbtide.kube.trust import server_trust

# kube-apiserver closes a connection that is idle for 90 s (apiserver/pkg/server/secure_serving.go): go first, or a
# request meets a connection that is just being closed.
_KEEP_IDLE_SECONDS: Final = 60.0
# A dead peer is noticed after 30 s + 3 probes of 10 s also where nothing is sent, as on a watch.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom to believe and what to show: PEM files, None for the system's authorities or for no client certificate."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """A context from the files as they are now. Raises OSError (ssl.SSLError) for files that cannot be used."""
        context = server_trust(self.ca_file)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context

    def connector(self) -> aiohttp.TCPConnector:
        """A new connection pool. It sets no limit of its own: the client's lanes do."""
        return aiohttp.TCPConnector(
            ssl=self.context(), limit=0, keepalive_timeout=_KEEP_IDLE_SECONDS, socket_factory=_socket
        )


def plain_connector() -> aiohttp.TCPConnector:
    """A connection pool without TLS, for `kubectl proxy` and tests."""
    return aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_IDLE_SECONDS, socket_factory=_socket)


def _socket(address: tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, object]) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if option := getattr(socket, name, None):
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened
