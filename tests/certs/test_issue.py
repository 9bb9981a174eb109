"""What is issued has the form that clients ask for, and OpenSSL accepts it."""

import ssl
import time
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.inspect import authority_fault, issued_by, key_fault, leaf_fault
from certs.issue import Pair, new_authority, new_leaf
from certs.spec import spec_of
from ebbtide.config.admission import Certs
from tests.certs.builders import DAY, HOUR, NOW, SPEC, authority, leaf


def extension(pair: Pair, kind: type[x509.ExtensionType]) -> x509.ExtensionType:
    return pair.certificate.parsed.extensions.get_extension_for_class(kind).value


def test_wh_43_the_names_are_those_of_the_service_and_what_was_added() -> None:
    """Short to fully qualified, then the extra ones: DNS names in lower case, addresses as such."""
    asked = spec_of(Certs(extra_sans=("Webhook.Example.com.", "10.0.0.1", "2001:DB8:0::1")), "ns1")
    issued = new_leaf(asked, new_authority(asked, NOW), NOW)
    names = extension(issued, x509.SubjectAlternativeName)
    assert isinstance(names, x509.SubjectAlternativeName)
    assert names.get_values_for_type(x509.DNSName) == [
        "ebbtide-webhook",
        "ebbtide-webhook.ns1",
        "ebbtide-webhook.ns1.svc",
        "ebbtide-webhook.ns1.svc.cluster.local",
        "webhook.example.com",
    ]
    assert [str(name) for name in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "2001:db8::1"]
    assert leaf_fault(issued.certificate, asked.names, [new_authority(asked, NOW).certificate], NOW) is not None


def test_wh_43_the_ca_signs_leaves_and_nothing_below_them() -> None:
    """CA true with path length 0, both critical; it signs certificates and revocation lists, and nothing else."""
    made = authority()
    constraints, usage = extension(made, x509.BasicConstraints), extension(made, x509.KeyUsage)
    assert constraints == x509.BasicConstraints(ca=True, path_length=0)
    assert isinstance(usage, x509.KeyUsage)
    assert (usage.key_cert_sign, usage.crl_sign, usage.digital_signature) == (True, True, False)
    assert authority_fault(made.certificate, NOW) is None


def test_wh_43_the_leaf_is_for_servers() -> None:
    """No CA, server authentication, another key than the CA's, signed by it."""
    issued = leaf()
    assert extension(issued, x509.BasicConstraints) == x509.BasicConstraints(ca=False, path_length=None)
    assert extension(issued, x509.ExtendedKeyUsage) == x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    assert issued_by(issued.certificate, authority().certificate)
    assert issued.certificate.fingerprint != authority().certificate.fingerprint
    assert key_fault(issued.certificate, authority().key_pem, "key") is not None
    assert leaf_fault(issued.certificate, SPEC.names, [authority().certificate], NOW) is None


def test_wh_43_dates() -> None:
    """From an hour ago for as long as the settings say; a leaf never outlives its CA."""
    assert authority().certificate.not_before == NOW - HOUR
    assert authority().certificate.not_after == NOW + 17520 * HOUR
    assert leaf().certificate.not_before == NOW - HOUR
    assert leaf().certificate.not_after == NOW + 60 * DAY
    late = new_leaf(SPEC, authority(), NOW + 17519 * HOUR)
    assert late.certificate.not_after == authority().certificate.not_after


def test_wh_43_serials_and_keys_are_never_the_same() -> None:
    """Random ones: positive, and of at most 20 bytes."""
    issued = [new_leaf(SPEC, authority(), NOW).certificate for _ in range(50)]
    assert len({each.serial for each in issued}) == 50
    assert all(0 < each.serial < 1 << 159 for each in issued)


def test_two_cas_have_different_names() -> None:
    """So that a client that looks an issuer up by its name finds the one that is meant."""
    assert authority().certificate.subject != authority("second").certificate.subject


def test_a_service_with_a_long_name_gets_its_leaf() -> None:
    """A common name holds 64 characters; the names stand among the SANs in any case."""
    long = spec_of(Certs(service_name="w" * 63), "n" * 63)
    made = new_authority(long, NOW)
    issued = new_leaf(long, made, NOW)
    assert leaf_fault(issued.certificate, long.names, [made.certificate], NOW) is None


def test_nothing_of_a_key_is_in_what_is_printed() -> None:
    """A pair that ends up in a message shows its certificate only."""
    assert "PRIVATE" not in repr(leaf())
    assert repr(leaf().key_pem)[20:60] not in repr(leaf())


@pytest.mark.parametrize("name", ["ebbtide-webhook.ns1.svc", "ebbtide-webhook"])
def test_openssl_accepts_the_leaf_by_its_names_and_no_other(name: str, tmp_path: Path) -> None:
    """A whole handshake, under strict checks, that trusts nothing but the CA; beside it another CA does no harm."""
    now = time.time()
    made, other = new_authority(SPEC, now), new_authority(SPEC, now)
    issued = new_leaf(SPEC, made, now)
    (tmp_path / "tls.crt").write_bytes(issued.certificate.pem)
    (tmp_path / "tls.key").write_bytes(issued.key_pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    handshake(server, other.certificate.pem + made.certificate.pem, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, made.certificate.pem, "somebody-else.ns1.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, other.certificate.pem, name)


def handshake(server: ssl.SSLContext, trusted: bytes, name: str) -> None:
    """In memory. Raises SSLError."""
    client = ssl.create_default_context(cadata=trusted.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for side in sides * 4:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert sides[0].getpeercert()
