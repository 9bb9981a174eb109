"""TLS for the API server, and nobody who can do less.

A context is made afresh for every pair and never changed, and without tickets a session can be resumed only by the
context it began with: so none outlives its pair. The API server keeps its connections; it resumes nothing.
"""

import ssl
import tempfile
from pathlib import Path
from typing import Final

from ebbtide.errors import UsageError

# Authenticated encryption and forward secrecy; for TLS 1.3 there is nothing else.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


def server_context(certificate: bytes, key: bytes, client_ca: Path | None = None) -> ssl.SSLContext:
    """A context that serves this pair (PEM, leaf first), with `client_ca` only to clients that it vouches for.

    Raises ssl.SSLError for a pair that does not fit, UsageError for a client CA that cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= (
        ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
    )
    context.num_tickets = 0
    _load(context, certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cafile=client_ca)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"--client-ca {client_ca}: {error}") from error
    return context


def client_context(authorities: bytes, *, check_name: bool = True) -> ssl.SSLContext:
    """A client that trusts these CAs (PEM) and no others; with none of them it takes every certificate.

    Raises ssl.SSLError for CAs that cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_name and bool(authorities)
    if authorities:
        context.load_verify_locations(cadata=authorities.decode("ascii", errors="replace"))
    else:
        context.verify_mode = ssl.CERT_NONE
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python reads a pair from files only: one that nobody else can read, and gone at once, in memory if there is."""
    memory = Path("/dev/shm")  # noqa: S108 - a directory for a file with a name of chance, mode 0600
    with tempfile.NamedTemporaryFile(dir=memory if memory.is_dir() else None) as pair:
        pair.write(certificate.rstrip() + b"\n" + key)
        pair.flush()
        context.load_cert_chain(pair.name)
