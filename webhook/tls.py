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


def server_context(certificate: bytes, key: bytes, client_ca: str = "") -> ssl.SSLContext:
    """A context that serves this pair (PEM, leaf first), with `client_ca` only to clients that these CAs vouch for.

    Raises ssl.SSLError for a pair that does not fit.
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
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_ca)
    return context


def read_client_ca(path: Path) -> str:
    """The CAs (PEM) of a file, in which there is at least one. Raises UsageError."""
    try:
        text = _ascii(path.read_bytes())
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=text)
    except ssl.SSLError:
        raise UsageError(f"--client-ca {path}: no certificate in it can be read") from None
    except OSError as error:
        raise UsageError(f"--client-ca {path}: {error.strerror}") from error
    return text


def client_context(authorities: bytes, *, check_name: bool = True) -> ssl.SSLContext:
    """A client that trusts these CAs (PEM) and no others; with none of them it takes every certificate.

    It has no certificate of its own. Where the server demands one, only a handshake of TLS 1.3 is over for the client
    before the server refuses it, so that is what it speaks. Raises ssl.SSLError for CAs that cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = check_name and bool(authorities)
    if authorities:
        context.load_verify_locations(cadata=_ascii(authorities))
    else:
        context.verify_mode = ssl.CERT_NONE
    return context


def _ascii(pem: bytes) -> str:
    """What Python reads of it, never empty. Remarks between the certificates may be in any language."""
    return pem.decode("ascii", errors="replace").replace("\ufffd", "?") or "?"


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python reads a pair from files only: one that nobody else can read, and gone at once, in memory if there is."""
    memory = Path("/dev/shm")  # noqa: S108 - a directory for a file with a name of chance, mode 0600
    with tempfile.NamedTemporaryFile(dir=memory if memory.is_dir() else None) as pair:
        pair.write(certificate.rstrip() + b"\n" + key)
        pair.flush()
        context.load_cert_chain(pair.name)
