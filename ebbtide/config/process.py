"""`[leader-election]` and `[observability]`: what the reconciler needs as a process."""

from typing import Annotated

from pydantic import Field

from ebbtide.config.kinds import Listen, ObjectName, PositiveSeconds, Section
from ebbtide.config.names import ANY_HOST, HostPort


class LeaderElection(Section, frozen=True):
    """Leader election over a Lease: of several reconcilers one acts."""

    lease_name: ObjectName = "ebbtide-reconciler"
    """Lease that the replicas compete for."""

    lease_duration: Annotated[PositiveSeconds, Field(multiple_of=1)] = 15.0
    """How long others wait after the last renewal before they take over, in whole seconds (the Lease has no
    fractions). Longer: a dead leader is replaced later."""

    renew_deadline: PositiveSeconds = 10.0
    """How long the leader may fail to renew before it stops writing and gives up."""

    retry_period: PositiveSeconds = 2.0
    """Pause between attempts to take or renew the lease."""


class Observability(Section, frozen=True):
    """Metrics, probes, status."""

    listen: Listen = HostPort(ANY_HOST, 8080)
    """Where the reconciler serves the status page `/`, `/metrics`, `/healthz`, `/readyz`, `/api/v1/state`. No TLS."""
