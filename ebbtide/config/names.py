"""Forms of names and addresses: what Kubernetes accepts, what a socket can listen on, what is a URL.

The rules are those of k8s.io/apimachinery `pkg/util/validation`. Each function takes a string and says whether it has
the form; `HostPort.parse` is the one that also takes it apart.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

# The default of every listen address: all of the pod's IPv4 addresses.
ANY_HOST: Final = "0.0.0.0"  # noqa: S104 - pods are reached at an address that nobody knows beforehand

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SERVICE: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_NAME_PART: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_HOST_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_REGION: Final = re.compile(r"[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}")
_REQUIREMENT: Final = re.compile(r"(?P<key>[^=!,\s]+)(?:(?:==?|!=)(?P<value>[^=!,\s]*))?|!(?P<absent>[^=!,\s]+)")
# The same for the schema of the chart's values. How long a whole may be, which they do not say, the LONG ones do.
DNS_LABEL: Final = _LABEL.pattern
DNS_NAME: Final = rf"{DNS_LABEL}(?:\.{DNS_LABEL})*"
SERVICE_NAME: Final = _SERVICE.pattern
LABEL_KEY: Final = rf"(?:{DNS_NAME}/)?{_NAME_PART.pattern}"
LABEL_VALUE: Final = rf"(?:{_NAME_PART.pattern})?"
# A name that ends in a number is a mistyped address.
_ENDS_IN_A_NAME: Final = r"(?:[0-9]+-[-A-Za-z0-9]*[A-Za-z0-9]|[0-9]*[A-Za-z](?:[-A-Za-z0-9]*[A-Za-z0-9])?)"
_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_IPV6: Final = r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
_HOST: Final = rf"(?:{_HOST_LABEL.pattern}\.)*{_ENDS_IN_A_NAME}\.?|{_IPV4}"
_PORT: Final = r"0*(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_PLACE: Final = rf"(?:{_HOST}|\[{_IPV6}\])(?::(?:{_PORT})?)?(?:/[^\s?#]*)?"
HTTP_URL: Final = rf"[Hh][Tt][Tt][Pp][Ss]?://{_PLACE}\??#?"
# Of webhooks, as the API server takes them.
HTTPS_URL: Final = rf"https://{_PLACE}"
CERTIFICATE_NAME: Final = rf"(?:\*\.)?(?:{_HOST}|{_IPV6})"
LONG_NAME: Final = r"^.{254}"
LONG_PREFIX: Final = r"^[^/]{254,}/"
LONG_HOST: Final = r"^(?:\*\.)?.{254}|[^.]{64}"
LONG_URL_HOST: Final = r"://[^/:]{254}|://[^/]*[^./:]{64}"
AWS_REGION: Final = _REGION.pattern


def is_dns_label(text: str) -> bool:
    """RFC 1123 label: what a namespace is called."""
    return _LABEL.fullmatch(text) is not None


def is_service_name(text: str) -> bool:
    """RFC 1035 label: what a Service is called (it must begin with a letter)."""
    return _SERVICE.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """RFC 1123 subdomain: what most objects are called."""
    return 0 < len(text) <= 253 and all(is_dns_label(part) for part in text.split("."))


def is_label_key(text: str) -> bool:
    """Key of a label, annotation or taint: `name` or `dns.prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    return _NAME_PART.fullmatch(name) is not None and (is_dns_name(prefix) if slash else not prefix)


def is_label_value(text: str) -> bool:
    """Value of a label; the empty one is valid."""
    return not text or _NAME_PART.fullmatch(text) is not None


def is_label_selector(text: str) -> bool:
    """Equality-based selector: `key`, `!key`, `key=value`, `key!=value`, joined by commas; never empty."""
    return all(_is_requirement(part.strip()) for part in text.split(","))


def _is_requirement(text: str) -> bool:
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        return False
    return is_label_key(match["key"] or match["absent"]) and is_label_value(match["value"] or "")


def is_ip_address(text: str) -> bool:
    """IPv4 or IPv6 address, without brackets or zone."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def is_host_name(text: str) -> bool:
    """DNS host name or IP address; a name whose last label is a number is a mistyped address (RFC 1123 2.1)."""
    if is_ip_address(text):
        return True
    labels = text.removesuffix(".").split(".")
    return len(text) <= 253 and not labels[-1].isdigit() and all(_HOST_LABEL.fullmatch(label) for label in labels)


def is_certificate_name(text: str) -> bool:
    """What a certificate may be issued for: host name, `*.` and a host name, or IP address."""
    return is_host_name(text.removeprefix("*."))


def is_http_url(text: str) -> bool:
    """`http://` or `https://`, a host, perhaps a port and a path; no user, query, fragment or space."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return False
    plain = url.username is None and not url.query and not url.fragment and not re.search(r"\s", text)
    return plain and url.scheme in {"http", "https"} and is_host_name(url.hostname or "") and port != 0


def is_aws_region(text: str) -> bool:
    """Such as `eu-central-1`, `us-gov-west-1`."""
    return _REGION.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class HostPort:
    """Where a server listens. Port 0 lets the kernel choose. An IPv6 host is kept without its brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `host:port` or `[IPv6]:port`; raises ValueError for anything else."""
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else host
        if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
            raise ValueError("no port")
        if not is_host_name(host) or bracketed != (":" in host):
            raise ValueError("no host")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
