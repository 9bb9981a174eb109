"""Is the cluster one that the product runs on, and may it do its work there?"""

import re
from collections.abc import Iterator
from typing import Final

from ebbtide.config import Settings
from ebbtide.counting import count
from ebbtide.preflight.finding import Finding, Status
from ebbtide.preflight.snapshot import Facts
from ebbtide.preflight.unread import Unread

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
        if lacking := tuple(str(need) for need in found.lacking if need.essential is essential):
            seen = f"{found.account} lacks {count(len(lacking), 'permission')} of {found.asked}"
            yield Finding(check, status, seen, why, "grant it in the role of the reconciler", lacking, listed=True)
    if not found.lacking:
        yield Finding(check, Status.PASS, f"{found.account} has all {found.asked} permissions")
