"""Table of contents of the checks: facts in, findings out."""

from collections.abc import Iterator

from ebbtide.config import Settings
from ebbtide.preflight.admission import webhook, webhook_answer, webhook_authority, webhook_service
from ebbtide.preflight.autoscaler import autoscaler
from ebbtide.preflight.descheduler import descheduler
from ebbtide.preflight.finding import Finding
from ebbtide.preflight.installation import cluster_version, namespace, permissions
from ebbtide.preflight.nodes import daemon_sets, nodes
from ebbtide.preflight.snapshot import Facts
from ebbtide.preflight.termination import agents, signal_sources, termination_handler


def decide(facts: Facts, settings: Settings, now: float) -> tuple[Finding, ...]:
    """All findings, in the order in which they are told. `now` is in epoch seconds."""
    return tuple(_findings(facts, settings, now))


def _findings(facts: Facts, settings: Settings, now: float) -> Iterator[Finding]:
    yield from cluster_version(facts)
    yield from namespace(facts, settings)
    yield from permissions(facts)
    yield from nodes(facts, settings)
    yield from daemon_sets(facts, settings)
    yield from autoscaler(facts, settings)
    yield from termination_handler(facts, settings)
    yield from signal_sources(facts, settings)
    yield from agents(facts)
    yield from descheduler(facts, settings)
    yield from webhook(facts, settings, now)
    yield from webhook_authority(facts, settings)
    yield from webhook_service(facts)
    yield from webhook_answer(facts)
