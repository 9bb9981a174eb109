"""What certificates of ours have to be like, from the settings alone."""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # pydantic takes more memory than all else in the child of `certs.consult`
    from ebbtide.config.admission import Certs

# Names of the files of a pair, and of its CA, in Secrets of type `kubernetes.io/tls` and in mounted directories.
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"

# How every CA of ours is called, before a word that tells one from the next.
CA_NAME: Final = "ebbtide webhook CA"
ORGANIZATION: Final = "ebbtide"
# X.509 counts whole seconds: what lives shorter would end as it begins.
_SHORTEST: Final = 1.0


@dataclass(frozen=True, slots=True)
class Spec:
    """Durations in seconds. `names` are DNS names and IP addresses as text, the Service's own name first."""

    names: tuple[str, ...]
    ca_lifetime: float
    leaf_lifetime: float
    backdate: float
    overlap: float

    @property
    def service_name(self) -> str:
        """The name that the API server asks for when a webhook is registered by its Service."""
        return self.names[2]


def spec_of(certs: "Certs", namespace: str) -> Spec:
    """What the settings ask for, for a Service of that namespace."""
    service = f"{certs.service_name}.{namespace}"
    own = (certs.service_name, service, f"{service}.svc", f"{service}.svc.cluster.local")
    return Spec(
        names=tuple(dict.fromkeys((*own, *map(canonical, certs.extra_sans)))),
        ca_lifetime=max(certs.ca_lifetime, _SHORTEST),
        leaf_lifetime=max(certs.leaf_lifetime, _SHORTEST),
        backdate=certs.backdate,
        overlap=certs.overlap,
    )


def canonical(name: str) -> str:
    """One text for one name: IP addresses compressed, DNS names in lower case without the last dot."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower().removesuffix(".")
