"""Keys and certificates of one test session: an authority, the server's pair on loopback, the service accounts' key."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Longer than any test session, and begun a little early in case a clock is set back.
_LIFETIME = timedelta(days=7)
_BACKDATE = timedelta(hours=1)


@dataclass(frozen=True)
class Pki:
    """PEM files: `ca` verifies `certificate`; `service_accounts` signs the tokens of service accounts."""

    ca: Path
    certificate: Path
    key: Path
    service_accounts: Path


def issue(folder: Path) -> Pki:
    """Writes a fresh set into the folder."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    ca = _authority(ca_key)
    server = _server(server_key, ca, ca_key)
    return Pki(
        ca=_write(folder / "ca.crt", ca.public_bytes(serialization.Encoding.PEM)),
        certificate=_write(folder / "server.crt", server.public_bytes(serialization.Encoding.PEM)),
        key=_write(folder / "server.key", _pem(server_key)),
        service_accounts=_write(folder / "service-accounts.key", _pem(ec.generate_private_key(ec.SECP256R1()))),
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    builder = _builder("ebbtide tests", "ebbtide tests", key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return builder.sign(key, hashes.SHA256())


def _server(
    key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
    builder = _builder("kube-apiserver", "ebbtide tests", key)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return builder.add_extension(issuer, critical=False).sign(ca_key, hashes.SHA256())


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + _LIFETIME)
        .add_extension(identifier, critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path
