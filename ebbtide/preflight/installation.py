"""Is the cluster one that the product runs on, may it do its work there, and is its webhook in force?"""

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from ebbtide.config import Settings
from ebbtide.model import format_time
from ebbtide.preflight.finding import Finding, Status
from ebbtide.preflight.snapshot import Facts, Unread, WebhookView

_OLDEST: Final = (1, 30)


def cluster_version(facts: Facts) -> Iterator[Finding]:
    """Kubernetes 1.30 or newer."""
    check = "cluster-version"
    if isinstance(facts.version, Unread):
        yield Finding(check, Status.UNKNOWN, facts.version.reason)
        return
    match = re.match(r"v?(\d+)\.(\d+)", facts.version)
    if match is None:
        yield Finding(check, Status.UNKNOWN, f"the API server calls itself {facts.version!r}")
    elif (int(match[1]), int(match[2])) >= _OLDEST:
        yield Finding(check, Status.PASS, f"the API server is {facts.version}")
    else:
        oldest = ".".join(map(str, _OLDEST))
        yield Finding(
            check,
            Status.FAIL,
            f"the API server is {facts.version}",
            f"ebbtide is made for and tested with Kubernetes {oldest} and newer",
            f"upgrade the cluster to {oldest} at least",
        )


def namespace(facts: Facts, settings: Settings) -> Iterator[Finding]:
    """The one in which Lease and certificates are kept."""
    check, name = "namespace", settings.home
    if isinstance(facts.namespaces, Unread):
        yield Finding(check, Status.UNKNOWN, facts.namespaces.reason)
    elif name in facts.namespaces:
        yield Finding(check, Status.PASS, f"namespace {name} is there")
    else:
        yield Finding(
            check,
            Status.WARN,
            f"there is no namespace {name}",
            "the reconciler keeps its Lease and the certificates there: without it none ever leads",
            f"kubectl create namespace {name}, or set another one by the key namespace",
        )


def permissions(facts: Facts) -> Iterator[Finding]:
    """Everything that the reconciler asks for at its start."""
    check, found = "permissions", facts.permissions
    if isinstance(found, Unread):
        yield Finding(check, Status.UNKNOWN, found.reason)
        return
    for essential, status, why in (
        (True, Status.FAIL, "the reconciler does not start without it (exit code 3)"),
        (False, Status.WARN, "the reconciler goes on without it, and says less"),
    ):
        if lacking := [str(need) for need in found.lacking if need.essential is essential]:
            seen = f"{found.account} is not permitted to: {'; '.join(lacking)}"
            yield Finding(check, status, seen, why, "grant it in the role of the reconciler", tuple(lacking))
    if not found.lacking:
        yield Finding(check, Status.PASS, f"{found.account} has all {found.asked} permissions")


def webhook(facts: Facts, settings: Settings, now: float) -> Iterator[Finding]:
    """Whether it is registered, and each entry has an authority that the API server can check it by."""
    check, selector = "webhook", settings.certs.webhook_configuration_selector
    if isinstance(facts.webhooks, Unread):
        yield Finding(check, Status.UNKNOWN, facts.webhooks.reason)
    elif not facts.webhooks:
        yield Finding(
            check,
            Status.WARN,
            f"no MutatingWebhookConfiguration has an entry and the labels {selector}",
            "pods are not kept away from blocked zones: where taints do not reach the autoscaler (all nodes cordoned, "
            "Karpenter) nothing holds",
            "install the webhook, or do without its leg knowingly",
        )
    else:
        for entry in facts.webhooks:
            yield _trusted(entry, now)


def _trusted(entry: WebhookView, now: float) -> Finding:
    where = f"{entry.configuration}, entry {entry.name}"
    try:
        ends = [each.not_valid_after_utc for each in _certificates(entry.ca_bundle)]
    except ValueError as error:
        ends, problem = [], f"has a caBundle that is no certificate ({error})" if entry.ca_bundle else "has no caBundle"
    else:
        problem = "" if max(ends) > datetime.fromtimestamp(now, UTC) else f"trusts an authority that ended {max(ends)}"
    if problem:
        return Finding(
            "webhook",
            Status.FAIL,
            f"{where} {problem}",
            "the API server cannot call the webhook: pods are created without the exclusion of blocked zones",
            "let the leading reconciler set it (it does so within seconds), or look why it does not",
            (entry.configuration,),
        )
    until = format_time(max(ends).timestamp())
    return Finding("webhook", Status.PASS, f"{where} trusts an authority until {until}", objects=(entry.configuration,))


def _certificates(bundle: str) -> list[x509.Certificate]:
    """Raises ValueError for anything but PEM certificates in base64."""
    try:
        return x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except binascii.Error as error:
        raise ValueError(str(error)) from error
