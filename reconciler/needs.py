"""Every permission that the reconciler uses, and what for: asked for at its start, and what its role must grant."""

from dataclasses import replace

from ebbtide.config import Settings
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.permissions import Need
from ebbtide.kube.resources import (
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
)
from reconciler.scaler.needs import needs_of_scaler

_READS = ("get", "list", "watch")


def needs(settings: Settings, namespace: str, *, dry_run: bool, deployment: str = "") -> list[Need]:
    """What the program asks for at its start. `namespace` and `deployment` are its own, the latter "" without one."""
    found = [Need("list", NODES, "to know zones and signals"), Need("watch", NODES, "to follow zones and signals")]
    if settings.node_rebalance.run:
        found += _needs_of_readmission(settings, dry_run=dry_run)
    if settings.certs.mode == "self-managed":
        found += _needs_of_certificates(settings, namespace, dry_run=dry_run)
    if settings.worker_scaler.run:
        found += needs_of_scaler(settings.worker_scaler, dry_run=dry_run)
    if dry_run:
        return found
    lease = settings.leader_election.lease_name
    found += [
        Need("get", LEASES, "leader election", namespace=namespace, name=lease),
        Need("create", LEASES, "leader election", namespace=namespace),
        Need("update", LEASES, "leader election", namespace=namespace, name=lease),
        Need("create", EVENTS, "to tell what was done", essential=False),
    ]
    if deployment:
        purpose = "to own the lease and the certificates"
        found.append(Need("get", DEPLOYMENTS, purpose, namespace=namespace, name=deployment, essential=False))
    if settings.node_rebalance.run:
        found += _needs_of_rebalance(settings.node_rebalance)
    elif settings.signals.sqs.queue_url:
        found += [Need(verb, NODES, "to tell nodes what the queue says") for verb in ("get", "patch")]
    return found


def _needs_of_rebalance(rules: NodeRebalance) -> list[Need]:
    found = [
        Need("get", NODES, "to look at a node again before it is tainted, or its pods go"),
        Need("patch", NODES, "to taint a zone"),
        Need("list", PODS, "to find the pods of a signalled node"),
        Need("watch", PODS, "to see them go"),
        Need("create", PODS, "to move pods out of a zone", subresource="eviction"),
        Need("list", NAMESPACES, "to see whose pods are to stay"),
        Need("watch", NAMESPACES, "to see whose pods are to stay"),
    ]
    if rules.zonal_volume_policy == "hold":
        for resource in (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES):
            found += [Need(verb, resource, "to see which pods cannot move") for verb in ("list", "watch")]
    return found


def _needs_of_readmission(settings: Settings, *, dry_run: bool) -> list[Need]:
    """None is essential: without them pods from before a block go on waiting, and zones are blocked all the same."""
    resources = [PODS, NAMESPACES, MUTATING_WEBHOOKS]
    if settings.webhook.volume_zone_awareness:
        resources += [PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES]
    purpose = "to find waiting pods whose zone exclusion is outdated"
    found = [Need(verb, resource, purpose, essential=False) for resource in resources for verb in ("list", "watch")]
    if not dry_run:
        found.append(Need("delete", PODS, "to have such pods admitted again", essential=False))
    return found


def _needs_of_certificates(settings: Settings, namespace: str, *, dry_run: bool) -> list[Need]:
    """One Secret by its name, and `caBundle`. A new Secret cannot be limited by name: RBAC does not see it yet.

    None is essential in a dry run, which has nothing to keep or publish: whoever tries it need not be let near secrets.
    """
    secret = settings.certs.secret_name
    webhooks = "to see whether the CA is published"
    found = [
        *(Need(verb, SECRETS, "to see the certificates", namespace=namespace, name=secret) for verb in _READS),
        *(Need(verb, MUTATING_WEBHOOKS, webhooks) for verb in ("list", "watch")),
        Need("list", PODS, "to see which webhook replicas know a new CA", namespace=namespace),
    ]
    if dry_run:
        return [replace(need, essential=False) for need in found]
    return [
        *found,
        Need("create", SECRETS, "to keep the certificates", namespace=namespace),
        Need("update", SECRETS, "to keep the certificates", namespace=namespace, name=secret),
        Need("patch", MUTATING_WEBHOOKS, "to publish the CA", names_open=True),
    ]
