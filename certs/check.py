"""Whether a pair may be served: judged before it takes the place of the one that is served now. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from certs.inspect import Certificate, Fault, Kind, certificates, date_fault, issued_by, issuer_of, key_fault
from certs.spec import BUNDLE, CERTIFICATE, KEY, Spec


@dataclass(frozen=True, slots=True)
class Offer:
    """The three texts of a pair as they were found, PEM when all is well; `bundle` may be empty in mounted pairs."""

    certificate: bytes
    key: bytes = field(repr=False)
    bundle: bytes


@dataclass(frozen=True, slots=True)
class Served:
    """A pair that has been checked. `cert_pem` is the leaf with its intermediates, `authorities` are the CA bundle."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)
    leaf: Certificate
    authorities: tuple[Certificate, ...]

    @property
    def bundle(self) -> bytes:
        """The CA bundle that clients are told to trust, PEM; empty where a mounted pair comes without one."""
        return b"".join(authority.pem for authority in self.authorities)

    @property
    def mark(self) -> str:
        """What the replica writes into the annotation `vocabulary.CA_SEEN_ANNOTATION` of its own pod.

        `seen.ready_replica` reads it: who has issued the leaf, and the CAs that the replica knows.
        """
        issuer = issuer_of(self.leaf, self.authorities)
        return f"{issuer.short if issuer else ''}/{','.join(authority.short for authority in self.authorities)}"


def check(offer: Offer, spec: Spec, now: float) -> Served | Fault:
    """The pair, if a client that trusts the bundle accepts it now under a name of ours; otherwise what is wrong."""
    chain = certificates(offer.certificate, CERTIFICATE)
    if isinstance(chain, Fault):
        return chain
    authorities = certificates(offer.bundle, BUNDLE) if offer.bundle.strip() else ()
    if isinstance(authorities, Fault):
        return authorities
    leaf = chain[0]
    fault = (
        key_fault(leaf, offer.key, KEY)
        or date_fault(leaf, now, "the leaf")
        or _names_fault(leaf, spec)
        or _chain_fault(chain, authorities, now)
    )
    return fault or Served(b"".join(each.pem for each in chain), offer.key, leaf, authorities)


def _names_fault(leaf: Certificate, spec: Spec) -> Fault | None:
    """The Service's name, or where webhooks are registered by URL the names that were asked for beside it."""
    extra = spec.names[4:]
    if _covers(leaf, spec.service_name) or (extra and all(_covers(leaf, name) for name in extra)):
        return None
    return Fault(Kind.WRONG_NAMES, f"the leaf is not issued for {spec.service_name}", leaf)


def _covers(leaf: Certificate, name: str) -> bool:
    _, _, domain = name.partition(".")
    return name in leaf.names or f"*.{domain}" in leaf.names


def _chain_fault(chain: Sequence[Certificate], authorities: Sequence[Certificate], now: float) -> Fault | None:
    """The leaf leads, by way of the certificates after it, to one that is trusted; without a bundle nobody can say."""
    if not authorities:
        return None
    trusted = [authority for authority in authorities if date_fault(authority, now, "") is None]
    left, at = list(chain[1:]), chain[0]
    while at not in trusted and not any(issued_by(at, authority) for authority in trusted):
        above = next((each for each in left if issued_by(at, each)), None)
        if above is None:
            return Fault(Kind.WRONG_ISSUER, f"the leaf does not lead to a valid CA of {BUNDLE}", chain[0])
        left.remove(above)
        at = above
    return None
