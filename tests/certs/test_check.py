"""Which pairs are served: what a client would accept, and nothing else."""

from dataclasses import dataclass

import pytest

from certs.check import Offer, Served, check
from certs.inspect import Fault, Kind
from certs.issue import new_leaf
from tests.certs.builders import DAY, HOUR, NOW, SPEC, authority, leaf, self_signed, spec

CA = authority().certificate.pem
GOOD = Offer(leaf().certificate.pem, leaf().key_pem, CA)


@dataclass(frozen=True)
class Case:
    name: str
    offer: Offer
    fault: Kind | None
    at: float = NOW


def offer(certificate: bytes = GOOD.certificate, key: bytes = GOOD.key, bundle: bytes = CA) -> Offer:
    return Offer(certificate, key, bundle)


other = self_signed()
CASES = (
    Case("sound", GOOD, None),
    Case("both CAs of a rotation", offer(bundle=authority("second").certificate.pem + CA), None),
    Case("no bundle, as some issuers leave it", offer(bundle=b""), None),
    Case("the leaf itself is trusted", offer(other.certificate.pem, other.key_pem, other.certificate.pem), None),
    Case("its CA after the leaf", offer(GOOD.certificate + CA), None),
    Case("no certificate", offer(certificate=b""), Kind.MISSING),
    Case("no key", offer(key=b"\n"), Kind.MISSING),
    Case("garbage for the certificate", offer(certificate=b"garbage"), Kind.GARBAGE),
    Case("half a certificate", offer(certificate=GOOD.certificate[:200]), Kind.GARBAGE),
    Case("garbage for the key", offer(key=b"garbage"), Kind.GARBAGE),
    Case("garbage for the bundle", offer(bundle=b"garbage"), Kind.GARBAGE),
    Case("WH-49 key of another pair", offer(key=leaf("second").key_pem), Kind.MISMATCH),
    Case("a key of another kind", offer(key=self_signed(key="rsa").key_pem), Kind.MISMATCH),
    Case("WH-48 expired", GOOD, Kind.EXPIRED, at=NOW + 61 * DAY),
    Case("WH-48 not valid yet", GOOD, Kind.NOT_YET_VALID, at=NOW - 2 * HOUR),
    Case("of a CA that is not published", offer(bundle=authority("second").certificate.pem), Kind.WRONG_ISSUER),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_may_be_served(case: Case) -> None:
    judged = check(case.offer, SPEC, case.at)
    assert (judged.kind if isinstance(judged, Fault) else None) is case.fault


def test_a_leaf_for_another_service_is_not_served() -> None:
    """Unless the names that webhooks are registered by are all there."""
    issued = new_leaf(spec(service_name="elsewhere", extra_sans=("w.example.com",)), authority(), NOW)
    found = Offer(issued.certificate.pem, issued.key_pem, CA)
    judged = check(found, SPEC, NOW)
    assert isinstance(judged, Fault)
    assert judged.kind is Kind.WRONG_NAMES
    assert isinstance(check(found, spec(extra_sans=("w.example.com",)), NOW), Served)


def test_what_is_served_says_who_it_is_trusted_by() -> None:
    """The mark names the issuer, and every CA of the bundle; nothing of the key is printed."""
    both = CA + authority("second").certificate.pem
    served = check(offer(bundle=both), SPEC, NOW)
    assert isinstance(served, Served)
    assert served.bundle == both
    first, second = authority().certificate.short, authority("second").certificate.short
    assert served.mark == f"{first}/{first},{second}"
    assert "PRIVATE" not in repr(served)
