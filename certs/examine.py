"""What there is, for people and programs: certificates with their faults, who trusts them, what comes next. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from certs.check import Offer, check
from certs.decide import Facts, decide
from certs.inspect import Certificate, Fault, certificates, date_fault, issuer_of, readable
from certs.issue import Pair
from certs.layout import Holding, Slot
from certs.live import Configuration, Entry
from certs.spec import BUNDLE, CERTIFICATE, Spec
from ebbtide.model import format_time


@dataclass(frozen=True, slots=True)
class Row:
    """One certificate, or the place where one should be; `fault` is "" when all is well."""

    role: str
    certificate: Certificate | None
    fault: str


@dataclass(frozen=True, slots=True)
class Examination:
    """`subject` names what was looked at, `reason` says what happens next; `faults` is all that is wrong."""

    subject: str
    step: str
    reason: str
    rows: tuple[Row, ...]
    entries: tuple[tuple[str, str], ...]
    faults: tuple[str, ...]


def files(directory: str, offer: Offer, spec: Spec, now: float) -> Examination:
    """A directory with a pair in it."""
    judged = check(offer, spec, now)
    fault = str(judged) if isinstance(judged, Fault) else ""
    chain, bundle = certificates(offer.certificate, CERTIFICATE), certificates(offer.bundle, BUNDLE)
    leaf = chain[0] if not isinstance(chain, Fault) else None
    rows = [Row("leaf", leaf, fault)]
    if not isinstance(bundle, Fault):
        rows += [Row("ca", each, str(date_fault(each, now, "the CA") or "")) for each in bundle]
    faults = tuple(row.fault for row in rows if row.fault)
    return Examination(directory, "files", "nothing is written here", tuple(rows), (), faults)


def secret(subject: str, facts: Facts, configurations: Iterable[Configuration], spec: Spec, now: float) -> Examination:
    """The Secret, and the caBundles that are there."""
    holding = facts.holding or Holding()
    decision = decide(facts, spec, now)
    rows = tuple(_rows(holding, now)) if facts.holding is not None and facts.ours else ()
    entries = tuple(
        (f"{each.name}/{entry.name}", _distrust(entry, holding)) for each in configurations for entry in each.entries
    )
    faults = [row.fault for row in rows if row.fault]
    faults += [f"{name}: {fault}" for name, fault in entries if fault]
    # What is only due is no fault.
    faults += [decision.why] if decision.broken else []
    step = holding.step if facts.holding is not None else "missing"
    return Examination(
        subject, step if facts.ours else "foreign", decision.why, rows, entries, tuple(dict.fromkeys(faults))
    )


def document(examination: Examination) -> dict[str, Any]:
    """For programs: camelCase keys, times RFC 3339."""
    return {
        "subject": examination.subject,
        "step": examination.step,
        "reason": examination.reason,
        "certificates": [_described(row) for row in examination.rows],
        "webhooks": [{"name": name, "fault": fault or None} for name, fault in examination.entries],
        "faults": list(examination.faults),
    }


def _described(row: Row) -> Mapping[str, Any]:
    found = row.certificate
    if found is None:
        return {"role": row.role, "fault": row.fault}
    return {
        "role": row.role,
        "subject": found.subject,
        "issuer": found.issuer,
        "serial": f"{found.serial:x}",
        "fingerprint": found.fingerprint,
        "notBefore": format_time(found.not_before),
        "notAfter": format_time(found.not_after),
        "names": sorted(found.names),
        "fault": row.fault or None,
    }


def _rows(holding: Holding, now: float) -> Iterator[Row]:
    yield _row("leaf", holding.leaf, now)
    if holding.signer is not None or holding.next is None:
        yield _row("ca", holding.signer, now)
    if holding.next is not None:
        yield _row("next-ca", holding.next, now)
    if isinstance(holding.old, Fault):
        yield Row("old-ca", None, str(holding.old))
    else:
        for each in holding.old:
            yield Row("old-ca", each, str(date_fault(each, now, "the old CA") or ""))


def _row(role: str, slot: Slot, now: float) -> Row:
    if isinstance(slot, Pair):
        return Row(role, slot.certificate, str(date_fault(slot.certificate, now, f"the {role}") or ""))
    return Row(role, slot.certificate if slot else None, str(slot or f"the {role} is missing"))


def _distrust(entry: Entry, holding: Holding) -> str:
    """Why API servers would not accept the leaf by this entry."""
    if not isinstance(holding.leaf, Pair):
        return ""
    authorities = readable(entry.bundle, "caBundle")
    if not authorities:
        return "caBundle is empty or cannot be read"
    issuer = issuer_of(holding.leaf.certificate, authorities)
    return "caBundle does not hold the CA of the leaf" if issuer is None else ""
