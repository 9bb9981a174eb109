"""`[webhook]` and `[certs]`: the admission webhook and its certificates."""

from typing import Annotated, Literal

from pydantic import Field

from ebbtide.config.kinds import (
    CertificateNames,
    Directory,
    Listen,
    ObjectName,
    PositiveCount,
    PositiveSeconds,
    Seconds,
    Section,
    Selector,
    ServiceName,
    Size,
)
from ebbtide.config.names import ANY_HOST, HostPort


class Webhook(Section, frozen=True):
    """Admission webhook: keeps new load-data workers out of blocked zones."""

    listen: Listen = HostPort(ANY_HOST, 8443)
    """Where admission is served, over TLS."""

    health_listen: Listen = HostPort(ANY_HOST, 8081)
    """Where metrics and probes are served, without TLS."""

    max_body_size: Annotated[Size, Field(ge=1)] = 7 << 20
    """Largest review that is read. The API server's own limit for an object is 3 MiB, and an update carries two."""

    max_in_flight: PositiveCount = 256
    """Most reviews under way at once; beyond it the API server is told to come again."""

    drain: Seconds = 15.0
    """How long requests are still answered after the signal to stop. At least as long as endpoints take to spread."""

    keep_alive: PositiveSeconds = 180.0
    """How long an idle connection is kept. Longer than the API server's 90 s, or requests meet closed connections."""

    volume_zone_awareness: bool = True
    """Whether a zone that holds a bound volume of the pod is never excluded."""


class Certs(Section, frozen=True):
    """Certificates of the webhook: made and rotated here, or mounted from elsewhere."""

    mode: Literal["self-managed", "files"] = "self-managed"
    """Who makes the certificates: "self-managed" keeps its own CA in a Secret and rotates it; "files" reads a mounted
    pair (cert-manager or any other issuer) and writes nothing."""

    secret_name: ObjectName = "ebbtide-webhook-tls"  # noqa: S105 - the name of a Secret, not its content
    """Secret that holds CA, leaf and the step of a rotation."""

    service_name: ServiceName = "ebbtide-webhook"
    """Service of the webhook: the leaf is issued for its DNS names."""

    extra_sans: CertificateNames = ()
    """Further names that the leaf is issued for, for a webhook that is reached by URL from outside the cluster."""

    webhook_configuration_selector: Selector = "ebbtide/ca-injection=enabled"
    """Every MutatingWebhookConfiguration with these labels is given our CA bundle, in each of its entries."""

    ca_lifetime: PositiveSeconds = 17520 * 3600.0
    """How long a CA is valid; it is replaced after two thirds of it."""

    leaf_lifetime: PositiveSeconds = 1440 * 3600.0
    """How long a leaf is valid, never past its CA; it is replaced after two thirds of it."""

    backdate: Seconds = 3600.0
    """How far back certificates begin to be valid, for clocks that are behind."""

    overlap: Seconds = 60.0
    """In a rotation, how long old and new CA are both published before leaves of the new one are used."""

    directory: Directory = "/etc/ebbtide/tls"
    """Where the pair is mounted in mode "files"."""
