"""Certificates, right and wrong, and what a Secret may hold of them."""

import functools
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from certs.inspect import Fault, bundle, certificate
from certs.issue import Pair, new_authority, new_leaf
from certs.layout import Holding
from certs.spec import Spec, spec_of
from ebbtide.config.admission import Certs

NOW = 1_767_225_600.0
HOUR = 3600.0
DAY = 24 * HOUR
NAMESPACE = "ns1"

SPEC = spec_of(Certs(), NAMESPACE)


def spec(**settings: Any) -> Spec:
    """What the default settings, with some changed, ask for."""
    return spec_of(Certs(**settings), NAMESPACE)


def authority(which: str = "first", begun: float = NOW) -> Pair:
    """A CA made at that time; each name is another CA, the same one whenever it is asked for."""
    return _authority(which, begun)


def leaf(of: str = "first", begun: float = NOW, extra: tuple[str, ...] = ()) -> Pair:
    """A leaf of that CA (made at `NOW`), issued at that time."""
    return _leaf(of, begun, extra)


@functools.cache
def _authority(which: str, begun: float) -> Pair:
    return new_authority(SPEC, begun)


@functools.cache
def _leaf(of: str, begun: float, extra: tuple[str, ...]) -> Pair:
    return new_leaf(replace(SPEC, names=SPEC.names + extra), authority(of), begun)


def stable(**changed: Any) -> Holding:
    """All is well: a CA and a leaf of it, both new at `NOW`. `listed` follows unless it is changed too."""
    first = authority()
    issued = leaf()
    holding = Holding(leaf=issued, signer=first, last_leaf_ends=issued.certificate.not_after)
    holding = replace(holding, **changed)
    return holding if "listed" in changed else replace(holding, listed=bundle(holding.authorities))


def publishing(**changed: Any) -> Holding:
    """A second CA is there and issues nothing yet."""
    return stable(**{"next": authority("second"), **changed})


def retiring(**changed: Any) -> Holding:
    """The second CA issues, the first is still published."""
    before = {
        "signer": authority("second"),
        "leaf": leaf("second"),
        "old": (authority().certificate,),
        "old_until": NOW + 60 * DAY,
    }
    return stable(**{**before, **changed})


def recovering(**changed: Any) -> Holding:
    """The key of the first CA is lost, the second is there."""
    before = {"signer": None, "leaf": None, "next": authority("second"), "old": (authority().certificate,)}
    return stable(**{**before, **changed})


# --- wrong in one respect -----------------------------------------------------------------------------------------


def self_signed(
    *, key: str = "p256", ca: bool = True, path_length: int | None = 0, signs: bool = True, common: str = "other"
) -> Pair:
    """A certificate that signs itself."""
    private = _key(key)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(NOW - HOUR, UTC))
        .not_valid_after(datetime.fromtimestamp(NOW + 365 * DAY, UTC))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length if ca else None), critical=True)
        .add_extension(_usage(signs), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SPEC.service_name)]), critical=False)
        .sign(private, hashes.SHA256())
    )
    read = certificate(built.public_bytes(Encoding.PEM), "a certificate of the test")
    assert not isinstance(read, Fault)
    return Pair(read, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _key(kind: str) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    match kind:
        case "p256":
            return ec.generate_private_key(ec.SECP256R1())
        case "p384":
            return ec.generate_private_key(ec.SECP384R1())
        case _:
            return rsa.generate_private_key(65537, 2048)


def _usage(signs: bool) -> x509.KeyUsage:
    others = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    return x509.KeyUsage(digital_signature=True, key_cert_sign=signs, crl_sign=signs, decipher_only=False, **others)
