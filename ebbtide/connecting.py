"""Why a connection could not be had, or was no use, in words for people: where to, and what failed.

aiohttp says `Cannot connect to host 10.0.0.1:443 ssl:default [Connect call failed ('10.0.0.1', 443)]`, whatever it was;
what the system or TLS had to say of it lies inside. Its attributes are read here without importing it, since the agent
does without aiohttp.
"""

import errno
import re
import socket
import ssl
from typing import Final

_BROKEN_OFF: Final = "{} broke the connection off"
_NO_WAY: Final = "there is no way to {}"
_NO_ANSWER: Final = "no answer from {} in time"
_BY_ERRNO: Final = {
    errno.ECONNREFUSED: "{} refuses connections",
    errno.ECONNRESET: _BROKEN_OFF,
    errno.ECONNABORTED: _BROKEN_OFF,
    errno.EPIPE: _BROKEN_OFF,
    errno.EHOSTUNREACH: _NO_WAY,
    errno.ENETUNREACH: _NO_WAY,
    errno.ETIMEDOUT: _NO_ANSWER,
}
# OpenSSL's `[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)`.
_TLS: Final = re.compile(r"\[SSL(?:: \w+)?\] (?P<words>.*?)(?: \(_ssl\.c:\d+\))?")


def address(host: str, port: int) -> str:
    """As it is written: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def words_of(error: Exception, peer: str = "") -> str:
    """What to say of an error of sockets, TLS or aiohttp; of any other, its own words.

    `peer` is the `address` that it is about, for errors that do not know it. Always one line.
    """
    peer = _peer(error) or peer or "the other end"
    match getattr(error, "os_error", error):
        case ssl.SSLCertVerificationError() as found:
            return f"the certificate of {peer} is not trusted: {found.verify_message.removesuffix('.')}"
        case socket.gaierror() as found:
            return f"the name {peer.rpartition(':')[0] or peer} cannot be resolved: {found.strerror}"
        case OSError() as found if tls := _TLS.fullmatch(found.strerror or ""):
            return f"no TLS with {peer}: {tls['words']}"
        case OSError(errno=number) if number in _BY_ERRNO:
            return _BY_ERRNO[number].format(peer)
        case TimeoutError():
            return _NO_ANSWER.format(peer)
        case OSError(strerror=str(said), filename=None):
            return said
    return _of_answer(error, peer) or " ".join(str(error).split()) or type(error).__name__


def _peer(error: Exception) -> str:
    """Where aiohttp wanted to connect to, or from where it had an answer that makes no sense."""
    if hasattr(error, "os_error"):
        return address(str(getattr(error, "host", "")), int(getattr(error, "port", None) or 0))
    url = getattr(getattr(error, "request_info", None), "url", None)
    return "" if url is None else address(url.host, url.port)


def _of_answer(error: Exception, peer: str) -> str:
    """aiohttp's quarrel with an answer: the reason in the first line, then what it has read."""
    said = getattr(error, "message", "")
    if not hasattr(error, "request_info") or not said:
        return ""
    first = str(said).splitlines()[0].removesuffix(":")
    # Without a cause it is a proxy's refusal, in the proxy's own words.
    return f"{peer} does not speak HTTP: {first}" if error.__cause__ else f"the proxy answers {first}"
