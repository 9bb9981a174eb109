"""Who leads, as the Lease tells it, and where its front is.

The leader writes that on the Lease. Others believe it only while the Lease is in force and names somebody else: a
client that is sent on follows at once and as often as it is told to, so that two fronts which each take the other for
the leader would have it chase between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

from ebbtide import vocabulary
from ebbtide.config.names import ANY_HOST, HostPort, is_host_name, is_http_url
from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.lease_record import Record
from reconciler.scaler.front.query import PATH

_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_WILDCARDS: Final = frozenset((ANY_HOST, "::"))


class Leadership(Protocol):
    """What a front has to know of the election."""

    @property
    def own(self) -> str:
        """Where this front is, "" where that is not known."""
        ...

    def leads(self) -> bool:
        """Whether this process decides now."""
        ...

    def leader(self) -> str:
        """Where the front of the other replica is that leads now, "" while none is known."""
        ...

    def trouble(self) -> str:
        """Why there is neither, in words."""
        ...


class Election(Protocol):
    """The part of an Elector that matters here."""

    @property
    def observed(self) -> Record | None: ...

    def permit(self) -> bool: ...

    def remaining(self) -> float: ...


@dataclass(frozen=True, slots=True)
class OnLease:
    """Leadership as the Lease tells it. `identity` and `own` are this process's name and address."""

    election: Election
    identity: str
    own: str

    def leads(self) -> bool:
        return self.election.permit()

    def leader(self) -> str:
        record = self.election.observed
        if record is None or record.holder in ("", self.identity) or self.election.remaining() <= 0:
            return ""
        address = address_of(record.annotations.get(vocabulary.LOAD_DATA_URL_ANNOTATION) or "")
        return "" if address and same(address, self.own) else address

    def trouble(self) -> str:
        record = self.election.observed
        if record is None or not record.holder or self.election.remaining() <= 0:
            return "no replica leads at the moment"
        if record.holder == self.identity:
            return "this replica has lost the lead, and no other has it yet"
        told = address_of(record.annotations.get(vocabulary.LOAD_DATA_URL_ANNOTATION) or "")
        if told and same(told, self.own):
            return f"the lease of {record.holder} has not run out, and its address {told} is this replica's own"
        return f"the leading replica, {record.holder}, has told no address of its own"


def advertised(rules: WorkerScaler, environ: Mapping[str, str], port: int) -> str:
    """Where this replica's front is for others, "" where that cannot be told; `port` is the one it listens on."""
    if rules.advertise_url:
        return address_of(rules.advertise_url)
    anywhere = rules.listen.host in _WILDCARDS
    host = environ.get("POD_IP", "") if anywhere else rules.listen.host
    return f"http://{HostPort(host, port)}" if is_host_name(host) else ""


def address_of(url: str) -> str:
    """`<scheme>://<host>:<port>` of a URL at which a front is, "" for anything that is none."""
    return url.rstrip("/").removesuffix(PATH).rstrip("/") if is_http_url(url) else ""


def same(one: str, other: str) -> bool:
    """Whether two addresses lead to the same port."""
    return _origin(one) == _origin(other)


@lru_cache(maxsize=4096)
def _origin(address: str) -> tuple[str, str, int | None]:
    url = urlsplit(address)
    return url.scheme, (url.hostname or "").removesuffix("."), url.port or _DEFAULT_PORTS.get(url.scheme)
