"""What the webhook tells of the pairs that it is offered: metrics and log lines. Nothing of a key is ever told."""

from collections.abc import Iterable

import structlog
from prometheus_client import CollectorRegistry, Counter

from certs.inspect import Certificate, Fault
from certs.report import Validity

log = structlog.stdlib.get_logger(__name__)


class Reloads:
    """Counts and logs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._validity = Validity(registry)
        self._errors = Counter(
            "certs_reload_errors",
            "Pairs that were found and not taken, since they could not be used; the one before is still served.",
            registry=registry,
        )

    def taken(self, leaf: Certificate, authorities: Iterable[Certificate]) -> None:
        """A pair is served from now on."""
        self._validity.set(leaf.not_after, max((each.not_after for each in authorities), default=None))
        log.info("certificate in use", leaf=leaf.short, serial=f"{leaf.serial:x}", not_after=leaf.not_after)

    def refused(self, fault: Fault, *, serving: bool) -> None:
        """A pair was found that cannot be used."""
        self._errors.inc()
        log.warning("certificate not taken", fault=fault.kind, problem=str(fault), serving_the_one_before=serving)
