"""Makes CAs and leaves: nothing is read or kept here, and nothing of a key is ever told."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from secrets import token_hex
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.inspect import Certificate, Fault, certificate
from certs.spec import CA_NAME, ORGANIZATION, Spec

# RFC 5280 ub-common-name: names that are longer stand among the SANs alone, where clients look anyway.
_LONGEST_COMMON_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key (PKCS #8, PEM)."""

    certificate: Certificate
    key_pem: bytes = field(repr=False)


def new_authority(spec: Spec, now: float) -> Pair:
    """A CA with a key of its own, valid from a while ago."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"{CA_NAME} {token_hex(4)}")
    builder = _builder(key.public_key(), now - spec.backdate, now + spec.ca_lifetime).subject_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return _signed(builder.issuer_name(name), key, key)


def new_leaf(spec: Spec, authority: Pair, now: float) -> Pair:
    """A leaf of that CA for the names of the spec; it does not outlive the CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority.certificate
    end = min(now + spec.leaf_lifetime, signer.not_after)
    builder = _builder(key.public_key(), now - spec.backdate, end)
    builder = builder.subject_name(_name(spec.service_name)).issuer_name(signer.parsed.subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_general, spec.names))), critical=False)
    identifier = signer.parsed.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
    )
    signing = load_pem_private_key(authority.key_pem, password=None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    return _signed(builder, key, signing)


def _builder(public: ec.EllipticCurvePublicKey, begin: float, end: float) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(int(begin), UTC))
        .not_valid_after(datetime.fromtimestamp(int(end), UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Pair:
    made = certificate(builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM), "what was issued")
    assert not isinstance(made, Fault)
    return Pair(made, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)
    if len(common) > _LONGEST_COMMON_NAME:
        return x509.Name([organization])
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
