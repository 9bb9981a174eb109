"""Is the webhook in force: registered, trusted, reached, and asked?"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from ebbtide.config import Settings
from ebbtide.model import format_time
from ebbtide.preflight.finding import Finding, Status, some
from ebbtide.preflight.registered import Endpoints, Registered, ServicePort, WebhookView
from ebbtide.preflight.snapshot import Facts
from ebbtide.preflight.unread import Unread

_LET_IT_BE_SET: Final = "let the leading reconciler set it (it does so within seconds), or look why it does not"
_LOOK_AT_PODS: Final = "look at /readyz and the logs of the webhook's pods: mostly they have no certificate yet"


def webhook(facts: Facts, settings: Settings, now: float) -> Iterator[Finding]:
    """Whether it is registered, and each entry has an authority that the API server can check it by."""
    check, selector = "webhook", settings.certs.webhook_configuration_selector
    if isinstance(facts.registered, Unread):
        yield Finding(check, Status.UNKNOWN, facts.registered.reason)
    elif not facts.registered.entries:
        yield Finding(
            check,
            Status.WARN,
            f"no MutatingWebhookConfiguration has an entry and the labels {selector}, or is of the chart",
            "pods are not kept away from blocked zones: where taints do not reach the autoscaler (all nodes cordoned, "
            "Karpenter) nothing holds",
            "install the webhook, or ignore this if it is enough here that taints alone keep new pods out",
        )
    else:
        for entry in facts.registered.entries:
            yield _trusted(entry, now)


def webhook_authority(facts: Facts, settings: Settings) -> Iterator[Finding]:
    """Whether entries trust the CA that the certificates are issued by now, and those that will be."""
    check, secret = "webhook-authority", f"Secret {settings.home}/{settings.certs.secret_name}"
    found = _registered(facts)
    if found is None:
        return
    if isinstance(found.authority, Unread):
        yield Finding(check, Status.UNKNOWN, found.authority.reason)
        return
    if found.authority is None:
        yield Finding(
            check,
            Status.WARN,
            f"there is no {secret}, from which the webhook has its certificate",
            "without a certificate the webhook does not serve",
            "look whether a reconciler leads and what it logs; if the certificate is kept elsewhere, say so by the key "
            "certs.secret-name",
        )
        return
    issuers = _certificates(found.authority)
    if isinstance(issuers, str):
        yield Finding(check, Status.UNKNOWN, f"ca.crt of {secret} says nothing about the CA: {issuers}")
        return
    problems = [problem for entry in found.entries for problem in _out_of_date(entry, issuers, secret)]
    yield from problems
    if not problems:
        yield Finding(check, Status.PASS, f"every entry that can be read trusts the CA of {secret}")


def webhook_service(facts: Facts) -> Iterator[Finding]:
    """Whether there is somebody to answer where the API server calls."""
    found = _registered(facts)
    if found is None:
        return
    if elsewhere := [entry.where for entry in found.entries if entry.service is None]:
        seen = f"called by URL, behind which nobody looks: {some(elsewhere)}"
        yield Finding("webhook-service", Status.UNKNOWN, seen, objects=tuple(elsewhere))
    for port, behind in found.services.items():
        yield _served(port, behind, [entry for entry in found.entries if entry.service == port])


def webhook_answer(facts: Facts) -> Iterator[Finding]:
    """Whether a pod that is created comes back as the webhook makes it."""
    found = _registered(facts)
    if found is None:
        return
    check, answer = "webhook-answer", found.answer
    if isinstance(answer, Unread):
        yield Finding(check, Status.UNKNOWN, answer.reason)
        return
    asked = f"a pod of the dedicated pool, created by dry run in namespace {answer.namespace},"
    if answer.refused:
        yield Finding(
            check,
            Status.FAIL,
            f"{asked} is refused: {answer.refused}",
            "pods that are sent to the webhook cannot be created, and with them no workers",
            "do what the other findings about the webhook say; the API server has said above what it met. Until then "
            "failurePolicy Ignore lets pods in without the exclusion",
        )
    elif answer.lacking:
        yield Finding(
            check,
            Status.FAIL,
            f"{asked} came back otherwise than it has to ({answer.reason}): {'; '.join(answer.lacking)}",
            "pods are created without the exclusion of blocked zones",
            "do what the other findings about the webhook say; with none the API server cannot reach the webhook's "
            "port, is too late (timeoutSeconds), or the webhook runs with another configuration than this one",
        )
    else:
        yield Finding(check, Status.PASS, f"{asked} came back as it has to: {answer.reason}")


def _registered(facts: Facts) -> Registered | None:
    """None where the check `webhook` has said all that there is to say."""
    found = facts.registered
    return None if isinstance(found, Unread) or not found.entries else found


def _consequence(entry: WebhookView) -> str:
    if entry.fails:
        return "the API server cannot call the webhook, and refuses what it is registered for (failurePolicy Fail)"
    return "the API server cannot call the webhook: pods are created without the exclusion of blocked zones"


# --- certificates -------------------------------------------------------------------------------------------------


def _trusted(entry: WebhookView, now: float) -> Finding:
    found = _certificates(entry.ca_bundle)
    if isinstance(found, str):
        ends, problem = [], f"has a caBundle that is no certificate ({found})" if entry.ca_bundle else "has no caBundle"
    else:
        ends = [each.not_valid_after_utc for each in found]
        problem = "" if max(ends) > datetime.fromtimestamp(now, UTC) else f"trusts an authority that ended {max(ends)}"
    if problem:
        seen, objects = f"{entry.where} {problem}", (entry.configuration,)
        return Finding("webhook", Status.FAIL, seen, _consequence(entry), _LET_IT_BE_SET, objects)
    until = format_time(max(ends).timestamp())
    return Finding(
        "webhook", Status.PASS, f"{entry.where} trusts an authority until {until}", "", "", (entry.configuration,)
    )


def _out_of_date(entry: WebhookView, issuers: Sequence[x509.Certificate], secret: str) -> Iterator[Finding]:
    """`issuers` are in the order of the Secret: the CA whose certificates are served is the first."""
    trusted = _certificates(entry.ca_bundle)
    if isinstance(trusted, str):
        return  # told by `webhook`
    check, objects = "webhook-authority", (entry.configuration,)
    if issuers[0] not in trusted:
        seen = f"{entry.where} does not trust the CA of {secret}"
        yield Finding(check, Status.FAIL, seen, _consequence(entry), _LET_IT_BE_SET, objects)
    elif any(issuer not in trusted for issuer in issuers):
        yield Finding(
            check,
            Status.WARN,
            f"{entry.where} lacks a CA that {secret} publishes beside the one in use",
            "a rotation of the CA waits for it; certificates of the other CA would not be trusted",
            _LET_IT_BE_SET,
            objects,
        )


def _certificates(bundle: str) -> list[x509.Certificate] | str:
    """Of a bundle in base64, one at least; a text says what is wrong with it."""
    try:
        return x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (binascii.Error, ValueError) as error:
        return str(error)


# --- what stands behind -------------------------------------------------------------------------------------------


def _served(port: ServicePort, behind: Endpoints | Unread | None, entries: Sequence[WebhookView]) -> Finding:
    check, objects = "webhook-service", tuple(dict.fromkeys(entry.configuration for entry in entries))
    if isinstance(behind, Unread):
        return Finding(check, Status.UNKNOWN, behind.reason)
    if behind is not None and behind.ready:
        return Finding(check, Status.PASS, f"{port}: {behind.ready} of {behind.ready + behind.unready} endpoints ready")
    if behind is None:
        seen, cure = f"{port}: there is no such Service", "install the chart, or take its registrations away"
    elif port.port not in behind.ports:
        ports = ", ".join(map(str, sorted(behind.ports))) or "none"
        seen, cure = f"{port}: the Service has other ports ({ports})", "register a port that the Service has"
    elif behind.unready:
        seen, cure = f"{port}: none of {behind.unready} endpoints is ready", _LOOK_AT_PODS
    else:
        seen, cure = (
            f"{port}: no pod serves it",
            "let pods of the webhook run, with the labels that the Service selects",
        )
    why = _consequence(next((entry for entry in entries if entry.fails), entries[0]))
    return Finding(check, Status.FAIL, seen, why, cure, objects)
