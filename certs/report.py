"""Outcomes → metrics and log lines. Nothing of a key is ever told."""

from collections.abc import Iterable

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.inspect import Certificate, Fault

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
