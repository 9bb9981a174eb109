"""What lies where in the Secret, read and written. Pure.

    tls.crt tls.key           the leaf that is served
    ca.crt                    the CA bundle that is published: of the three below, in this order
    ca-signer.crt .key        the CA that leaves are issued by
    ca-next.crt .key          a CA that is published and will issue the next leaves
    ca-old.crt                a CA that issues no more, published as long as its last leaf may be in use

Annotations carry the times of a rotation, so that whoever leads next goes on where the last one stopped.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from certs.check import Offer
from certs.inspect import Certificate, Fault, Kind, bundle, certificate, certificates, key_fault
from certs.issue import Pair
from certs.spec import BUNDLE, CERTIFICATE, KEY
from ebbtide import vocabulary
from ebbtide.kube.resources import SECRETS
from ebbtide.model import format_time, parse_time

Raw = Mapping[str, Any]

SIGNER: Final = "ca-signer"
NEXT: Final = "ca-next"
OLD: Final = "ca-old.crt"

# A slot that is empty is None.
Slot = Pair | Fault | None


@dataclass(frozen=True, slots=True)
class Holding:
    """What the Secret holds, each part as it was found. Times are epoch seconds, None where nothing (sensible) is said.

    `listed` is the bundle as the Secret spells it out; `request` is what somebody asked to be made anew.
    """

    leaf: Slot = None
    signer: Slot = None
    next: Slot = None
    old: tuple[Certificate, ...] | Fault = ()
    listed: bytes = b""
    published_at: float | None = None
    last_leaf_ends: float | None = None
    old_until: float | None = None
    request: str = ""

    @property
    def authorities(self) -> tuple[Certificate, ...]:
        """The CAs to publish, the one whose leaves are served first; only those that can be read, with their keys."""
        old = () if isinstance(self.old, Fault) else self.old
        signer, following = ([s.certificate] if isinstance(s, Pair) else [] for s in (self.signer, self.next))
        return tuple(dict.fromkeys((*signer, *following, *old) if signer else (*old, *following)))

    @property
    def step(self) -> str:
        """The step of a rotation in a word, for people."""
        if isinstance(self.next, Pair):
            return "publishing" if isinstance(self.signer, Pair) else "recovering"
        return "retiring" if self.old else "stable"


@dataclass(frozen=True, slots=True)
class Found:
    """The Secret as it was read. `ours` says whether we made it; `metadata` is what a write has to send back."""

    holding: Holding
    ours: bool
    metadata: Raw
    type: str


def offer_of(raw: Raw) -> Offer:
    """What a webhook may serve of a Secret object."""
    data = raw.get("data") or {}
    return Offer(_bytes(data, CERTIFICATE), _bytes(data, KEY), _bytes(data, BUNDLE))


def read(raw: Raw) -> Found:
    """Reads a Secret object; never raises for what its data may be."""
    metadata = raw["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    data = raw.get("data") or {}
    holding = Holding(
        leaf=_slot(data, CERTIFICATE, KEY),
        signer=_slot(data, f"{SIGNER}.crt", f"{SIGNER}.key"),
        next=_slot(data, f"{NEXT}.crt", f"{NEXT}.key"),
        old=certificates(_bytes(data, OLD), OLD) if OLD in data else (),
        listed=_bytes(data, BUNDLE),
        published_at=parse_time(annotations.get(vocabulary.CERTS_PUBLISHED_ANNOTATION)),
        last_leaf_ends=parse_time(annotations.get(vocabulary.CERTS_LAST_LEAF_ANNOTATION)),
        old_until=parse_time(annotations.get(vocabulary.CERTS_OLD_UNTIL_ANNOTATION)),
        request=str(annotations.get(vocabulary.CERTS_ROTATE_ANNOTATION) or ""),
    )
    ours = labels.get(vocabulary.CERTS_LABEL) == vocabulary.CERTS_SELF_MANAGED
    return Found(holding, ours, metadata, raw.get("type") or "")


def body(name: str, holding: Holding, before: Found | None) -> dict[str, Any]:
    """The Secret to send: a new one, or what takes the place of `before` in the version that was read."""
    metadata: dict[str, Any] = {"name": name} if before is None else dict(before.metadata)
    metadata.pop("managedFields", None)
    labels = {**(metadata.get("labels") or {}), vocabulary.CERTS_LABEL: vocabulary.CERTS_SELF_MANAGED}
    annotations = {**(metadata.get("annotations") or {}), **_annotations(holding)}
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {
            **metadata,
            "labels": labels,
            "annotations": {key: value for key, value in annotations.items() if value},
        },
        "type": "kubernetes.io/tls" if before is None else before.type,
        "data": {key: b64encode(value).decode() for key, value in _data(holding).items()},
    }


def _annotations(holding: Holding) -> dict[str, str]:
    return {
        vocabulary.CERTS_STEP_ANNOTATION: holding.step,
        vocabulary.CERTS_PUBLISHED_ANNOTATION: _time(holding.published_at),
        vocabulary.CERTS_LAST_LEAF_ANNOTATION: _time(holding.last_leaf_ends),
        vocabulary.CERTS_OLD_UNTIL_ANNOTATION: _time(holding.old_until),
        vocabulary.CERTS_ROTATE_ANNOTATION: holding.request,
    }


def _data(holding: Holding) -> dict[str, bytes]:
    """Secrets of this type must have both halves of the pair, be it empty ones."""
    leaf = holding.leaf if isinstance(holding.leaf, Pair) else None
    data = {
        CERTIFICATE: leaf.certificate.pem if leaf else b"",
        KEY: leaf.key_pem if leaf else b"",
        BUNDLE: bundle(holding.authorities),
    }
    for name, slot in ((SIGNER, holding.signer), (NEXT, holding.next)):
        if isinstance(slot, Pair):
            data |= {f"{name}.crt": slot.certificate.pem, f"{name}.key": slot.key_pem}
    if holding.old and not isinstance(holding.old, Fault):
        data[OLD] = bundle(holding.old)
    return data


def _slot(data: Raw, certificate_key: str, key_key: str) -> Slot:
    cert_pem, key_pem = _bytes(data, certificate_key), _bytes(data, key_key)
    if not cert_pem and not key_pem:
        return None
    found = certificate(cert_pem, certificate_key)
    if isinstance(found, Fault):
        return found
    return key_fault(found, key_pem, key_key) or Pair(found, key_pem)


def _bytes(data: Raw, key: str) -> bytes:
    """A value of `data`; what is not Base64 counts as it is written, and is found to be garbage later."""
    value = data.get(key) or ""
    try:
        return b64decode(value, validate=True)
    except (NotBase64, ValueError, TypeError):
        return str(value).encode()


def _time(epoch: float | None) -> str:
    return "" if epoch is None else format_time(epoch)


def missing(what: str) -> Fault:
    """The fault of a part that is not there."""
    return Fault(Kind.MISSING, f"{what} is missing")
