"""Outcomes → metrics and log lines. Nothing of a key is ever told."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.decide import Decision, Step
from certs.inspect import Certificate, Fault
from certs.issue import Pair
from certs.layout import Holding
from certs.live import Configuration
from ebbtide.kube.errors import KubeError

log = structlog.stdlib.get_logger(__name__)


class Validity:
    """`certs_not_after_seconds{kind}`: until when what is in use is valid."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(
            "certs_not_after_seconds",
            "Until when the certificate in use is valid, in seconds since 1970; of several CAs the one that ends last.",
            ["kind"],
            registry=registry,
        )

    def set(self, leaf: Certificate | None, authorities: Iterable[Certificate]) -> None:
        ends = [authority.not_after for authority in authorities]
        if leaf is not None:
            self._gauge.labels("leaf").set(leaf.not_after)
        if ends:
            self._gauge.labels("ca").set(max(ends))

    def clear(self) -> None:
        """Nothing is known (a term is over)."""
        self._gauge.clear()


class Reloads:
    """What the webhook tells about the pairs that it is offered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._validity = Validity(registry)
        self._errors = Counter(
            "certs_reload_errors",
            "Pairs that were found and not taken, since they could not be used; the one before is still served.",
            registry=registry,
        )

    def taken(self, leaf: Certificate, authorities: Iterable[Certificate]) -> None:
        """A pair is served from now on."""
        self._validity.set(leaf, authorities)
        log.info("certificate in use", leaf=leaf.short, serial=f"{leaf.serial:x}", not_after=leaf.not_after)

    def refused(self, fault: Fault, *, serving: bool) -> None:
        """A pair was found that cannot be used."""
        self._errors.inc()
        log.warning("certificate not taken", fault=fault.kind, problem=str(fault), serving_the_one_before=serving)


@dataclass(frozen=True, slots=True)
class Story:
    """Something to be told as an Event: about the Secret, or with `configuration` about that object."""

    kind: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    configuration: Configuration | None = None


Tell = Callable[[Story], None]

# What is told of a step that was carried out.
_STEPS: Final[Mapping[Step, tuple[Literal["Normal", "Warning"], str]]] = {
    Step.CREATE: ("Normal", "CertificatesIssued"),
    Step.ISSUE_LEAF: ("Normal", "LeafIssued"),
    Step.REPAIR: ("Warning", "CertificatesRepaired"),
    Step.BEGIN: ("Normal", "AuthorityRotationBegun"),
    Step.RECOVER: ("Warning", "AuthorityReplaced"),
    Step.SWITCH: ("Normal", "AuthorityRotated"),
    Step.RETIRE: ("Normal", "AuthorityRetired"),
}
_CONTESTED: Final = "BundleContested"
_FOREIGN: Final = "CertificateSecretForeign"
# Every reason that an Event of the certificates may have.
REASONS: Final = frozenset({reason for _, reason in _STEPS.values()} | {_CONTESTED, _FOREIGN})
_ROTATIONS: Final = frozenset({Step.ISSUE_LEAF, Step.SWITCH})


class Report:
    """What the leader tells about the certificates that it keeps."""

    def __init__(self, registry: CollectorRegistry, tell: Tell) -> None:
        self._tell = tell
        self._validity = Validity(registry)
        self._said = ""
        self._rotations = Counter(
            "certs_rotations",
            "Leaves that took the place of another one, whether of the same CA or of a new one.",
            registry=registry,
        )

    def clear(self) -> None:
        """Nothing is known (a term is over)."""
        self._said = ""
        self._validity.clear()

    def looked(self, decision: Decision, holding: Holding | None) -> None:
        """A look has come to an end; a step that it would take is not taken in a dry run."""
        if decision.step is Step.REFUSE:
            self._refuse(decision.why)
        elif decision.why != self._said:
            said = "certificates" if decision.step is Step.NOTHING else "would change certificates"
            log.info(said, step=decision.step, reason=decision.why)
        self._said = decision.why
        if holding is not None and decision.step is not Step.REFUSE:
            leaf = holding.leaf.certificate if isinstance(holding.leaf, Pair) else None
            self._validity.set(leaf, holding.authorities)

    def done(self, decision: Decision) -> None:
        """The step is stored."""
        if decision.step in _ROTATIONS:
            self._rotations.inc()
        log.info("certificates changed", step=decision.step, reason=decision.why)
        if decision.step in _STEPS:
            kind, reason = _STEPS[decision.step]
            self._tell(Story(kind, reason, "Rotate", f"{reason}: {decision.why}"))

    def _refuse(self, why: str) -> None:
        if why != self._said:
            log.error("certificates cannot be kept", problem=why)
            self._tell(Story("Warning", _FOREIGN, "Rotate", why))

    def injected(self, found: Configuration) -> None:
        """The CA bundle was written into a configuration."""
        log.info("caBundle written", configuration=found.name)

    def not_injected(self, found: Configuration, error: KubeError) -> None:
        """The configuration was no longer what it had been."""
        log.info("caBundle not written, looking again", configuration=found.name, reason=str(error))

    def contested(self, found: Configuration) -> None:
        """Another writer keeps changing the bundle."""
        note = "another writer keeps changing caBundle: it is written once a minute from now on"
        log.warning("caBundle contested", configuration=found.name, problem=note)
        self._tell(Story("Warning", _CONTESTED, "Publish", note, found))
