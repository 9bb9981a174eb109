"""What the leader tells: outcomes → metrics, log lines and stories. Nothing of a key is ever told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.live import Configuration
from certs.look import Answer, Step
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

    def set(self, leaf: float | None, authorities: float | None) -> None:
        """The end of the leaf, and of the CA that ends last (epoch seconds); None leaves what was known."""
        for kind, end in (("leaf", leaf), ("ca", authorities)):
            if end is not None:
                self._gauge.labels(kind).set(end)

    def clear(self) -> None:
        """Nothing is known (a term is over)."""
        self._gauge.clear()


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

    def looked(self, answer: Answer) -> None:
        """A look has come to an end; a step that it would take is not taken in a dry run."""
        if answer.step is Step.REFUSE:
            self._refuse(answer.why)
        elif answer.why != self._said:
            said = "certificates" if answer.step is Step.NOTHING else "would change certificates"
            log.info(said, step=answer.step, reason=answer.why)
        self._said = answer.why
        self._validity.set(answer.leaf_ends, answer.authority_ends)

    def done(self, answer: Answer) -> None:
        """The step is stored."""
        if answer.step in _ROTATIONS:
            self._rotations.inc()
        log.info("certificates changed", step=answer.step, reason=answer.why)
        if answer.step in _STEPS:
            kind, reason = _STEPS[answer.step]
            self._tell(Story(kind, reason, "Rotate", f"{reason}: {answer.why}"))

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
