"""PEM → what a certificate says, or the fault in it. Pure; `now` is handed in where dates are judged."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from certs.spec import canonical

# What cryptography raises for bytes that only look like a certificate or a key.
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
_P256: Final = "ecdsa-p256"


class Kind(StrEnum):
    """What can be wrong."""

    MISSING = "missing"
    GARBAGE = "garbage"
    MISMATCH = "mismatch"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    WRONG_NAMES = "wrong-names"
    WRONG_FORM = "wrong-form"
    WRONG_ISSUER = "wrong-issuer"


@dataclass(frozen=True, slots=True)
class Certificate:
    """One certificate. Times are epoch seconds; `names` are its SANs as `spec.canonical` writes them.

    `key` is `ecdsa-p256` or another algorithm's name; `path_length` is None without a limit; `signs` says whether it
    may sign certificates and revocation lists, `serves` whether it is meant for servers.
    """

    fingerprint: str
    subject: str
    issuer: str
    serial: int
    not_before: float
    not_after: float
    key: str
    names: frozenset[str]
    is_ca: bool
    path_length: int | None
    signs: bool
    serves: bool
    pem: bytes = field(repr=False, compare=False)
    parsed: x509.Certificate = field(repr=False, compare=False)

    @property
    def short(self) -> str:
        """Enough of the fingerprint to tell certificates apart."""
        return self.fingerprint[:16]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something cannot be used. `certificate` is there where only its key, or its date, is wrong."""

    kind: Kind
    words: str
    certificate: Certificate | None = None

    def __str__(self) -> str:
        return self.words


# --- reading ------------------------------------------------------------------------------------------------------


def certificates(pem: bytes, what: str) -> tuple[Certificate, ...] | Fault:
    """All certificates of a PEM text, at least one, each once."""
    if not pem.strip():
        return Fault(Kind.MISSING, f"{what} is empty")
    try:
        return tuple(dict.fromkeys(map(_facts, x509.load_pem_x509_certificates(pem))))
    except _UNREADABLE:
        return Fault(Kind.GARBAGE, f"{what} is no certificate")


def readable(pem: bytes, what: str) -> tuple[Certificate, ...]:
    """All certificates of a PEM text, none where it cannot be read."""
    found = certificates(pem, what)
    return () if isinstance(found, Fault) else found


def certificate(pem: bytes, what: str) -> Certificate | Fault:
    """The only, or first, certificate of a PEM text."""
    found = certificates(pem, what)
    return found if isinstance(found, Fault) else found[0]


def key_fault(certificate: Certificate, key_pem: bytes, what: str) -> Fault | None:
    """Whether a private key can be read, and belongs to the certificate."""
    if not key_pem.strip():
        return Fault(Kind.MISSING, f"{what} is empty", certificate)
    try:
        public = load_pem_private_key(key_pem, password=None).public_key()
        ours = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        theirs = certificate.parsed.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except _UNREADABLE:
        return Fault(Kind.GARBAGE, f"{what} is no private key", certificate)
    if ours != theirs:
        return Fault(Kind.MISMATCH, f"{what} belongs to another certificate", certificate)
    return None


def bundle(certificates: Iterable[Certificate]) -> bytes:
    """The certificates as one PEM text."""
    return b"".join(certificate.pem for certificate in certificates)


# --- judging ------------------------------------------------------------------------------------------------------


def date_fault(certificate: Certificate, now: float, what: str) -> Fault | None:
    """Whether a certificate is valid at `now`."""
    if now > certificate.not_after:
        return Fault(Kind.EXPIRED, f"{what} has expired", certificate)
    if now < certificate.not_before:
        return Fault(Kind.NOT_YET_VALID, f"{what} is not valid yet", certificate)
    return None


def authority_fault(certificate: Certificate, now: float) -> Fault | None:
    """Whether a certificate is a CA as we make them, and valid."""
    formed = certificate.is_ca and certificate.path_length == 0 and certificate.signs and certificate.key == _P256
    if not formed or not issued_by(certificate, certificate):
        return Fault(Kind.WRONG_FORM, "the CA is not one of the form that ebbtide issues")
    return date_fault(certificate, now, "the CA")


def leaf_fault(leaf: Certificate, names: Iterable[str], authorities: Iterable[Certificate], now: float) -> Fault | None:
    """Whether a certificate is a leaf as we make them: for exactly these names, by one of these CAs, and valid."""
    if leaf.is_ca or not leaf.serves or leaf.key != _P256:
        return Fault(Kind.WRONG_FORM, "the leaf is not one of the form that ebbtide issues", leaf)
    if leaf.names != frozenset(names):
        return Fault(Kind.WRONG_NAMES, "the leaf is issued for other names", leaf)
    if issuer_of(leaf, authorities) is None:
        return Fault(Kind.WRONG_ISSUER, "the leaf is not issued by a CA that is published", leaf)
    return date_fault(leaf, now, "the leaf")


def issuer_of(leaf: Certificate, authorities: Iterable[Certificate]) -> Certificate | None:
    """The one of the CAs that has signed the certificate."""
    return next((authority for authority in authorities if issued_by(leaf, authority)), None)


def issued_by(subject: Certificate, authority: Certificate) -> bool:
    """Whether names and signature agree."""
    try:
        subject.parsed.verify_directly_issued_by(authority.parsed)
    except (InvalidSignature, *_UNREADABLE):
        return False
    return True


# --- one certificate ----------------------------------------------------------------------------------------------


def _facts(parsed: x509.Certificate) -> Certificate:
    der = parsed.public_bytes(Encoding.DER)
    extensions = {extension.oid: extension.value for extension in parsed.extensions}
    constraints = extensions.get(ExtensionOID.BASIC_CONSTRAINTS)
    is_ca = isinstance(constraints, x509.BasicConstraints) and constraints.ca
    return Certificate(
        fingerprint=sha256(der).hexdigest(),
        subject=parsed.subject.rfc4514_string(),
        issuer=parsed.issuer.rfc4514_string(),
        serial=parsed.serial_number,
        not_before=parsed.not_valid_before_utc.timestamp(),
        not_after=parsed.not_valid_after_utc.timestamp(),
        key=_algorithm(parsed),
        names=_names(extensions.get(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)),
        is_ca=is_ca,
        path_length=constraints.path_length if isinstance(constraints, x509.BasicConstraints) else None,
        signs=_signs(extensions.get(ExtensionOID.KEY_USAGE)),
        serves=_serves(extensions.get(ExtensionOID.EXTENDED_KEY_USAGE)),
        pem=parsed.public_bytes(Encoding.PEM),
        parsed=parsed,
    )


def _algorithm(parsed: x509.Certificate) -> str:
    key = parsed.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return type(key).__name__.lower()
    return _P256 if isinstance(key.curve, ec.SECP256R1) else f"ecdsa-{key.curve.name}"


def _names(extension: x509.ExtensionType | None) -> frozenset[str]:
    if not isinstance(extension, x509.SubjectAlternativeName):
        return frozenset()
    plain = extension.get_values_for_type(x509.DNSName)
    addresses = extension.get_values_for_type(x509.IPAddress)
    return frozenset(canonical(str(name)) for name in (*plain, *addresses))


def _signs(extension: x509.ExtensionType | None) -> bool:
    return isinstance(extension, x509.KeyUsage) and extension.key_cert_sign and extension.crl_sign


def _serves(extension: x509.ExtensionType | None) -> bool:
    return isinstance(extension, x509.ExtendedKeyUsage) and ExtendedKeyUsageOID.SERVER_AUTH in extension
