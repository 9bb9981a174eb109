"""Every permission that the webhook uses, and what for: asked for at its start, and what its role must grant."""

from ebbtide.config import Settings
from ebbtide.kube.permissions import Need
from ebbtide.kube.resources import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    Resource,
)


def needs(settings: Settings, namespace: str, pod: str) -> list[Need]:
    """What the program asks for at its start; `namespace` and `pod` are its own, "" where it is no pod."""
    found = [
        *_followed(NODES, "to know which zones are blocked"),
        *_followed(NAMESPACES, "to know whose pods are guarded"),
    ]
    if settings.webhook.volume_zone_awareness:
        for resource in (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES):
            found += _followed(resource, "to keep pods where their volumes are")
    if settings.certs.mode == "self-managed":
        secret, purpose = settings.certs.secret_name, "to have a certificate"
        found += [Need(verb, SECRETS, purpose, namespace=namespace, name=secret) for verb in ("list", "watch")]
    purpose = "to see whether the API server trusts the certificate"
    found += [Need(verb, MUTATING_WEBHOOKS, purpose, essential=False) for verb in ("list", "watch")]
    if pod:
        found.append(Need("patch", PODS, "to say which CAs it knows", namespace=namespace, name=pod, essential=False))
    return found


def _followed(resource: Resource, purpose: str) -> list[Need]:
    return [Need(verb, resource, purpose) for verb in ("list", "watch")]
