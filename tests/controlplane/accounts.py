"""Accounts of the programs as the chart makes them: a program of a test may do what an installed one may, no more.

Of each component the chart's ServiceAccount, roles and bindings are made, as Helm renders them for what the test's
configuration turns on. The namespaces of the release and of the workers are both the world's.
"""

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Final, Literal

import orjson

from ebbtide.config import Settings
from ebbtide.kube.resources import MUTATING_WEBHOOKS, Resource
from tests.chart.helm import NAMESPACE, Object, Values, rendered
from tests.controlplane.world import World

Component = Literal["reconciler", "webhook"]

# Where the chart has the workers; another than that of the release.
_WORKERS: Final = "tidb-serverless"
_RBAC: Final = ("rbac.authorization.k8s.io", "v1")
_KINDS: Final[Mapping[str, Resource]] = {
    "ServiceAccount": Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True),
    "ClusterRole": Resource(*_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    "Role": Resource(*_RBAC, "roles", "Role", namespaced=True),
    "ClusterRoleBinding": Resource(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    "RoleBinding": Resource(*_RBAC, "rolebindings", "RoleBinding", namespaced=True),
}
_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)


async def token(cluster: World, component: Component, settings: Settings, *, dry_run: bool = False) -> str:
    """A token of the account that the chart gives this component with these settings. It is made once for the same
    permissions, is in force when this returns, and goes with the world."""
    objects = await rendered(cluster.plane.folder / "helm", _values(settings, dry_run=dry_run))
    own = [each for each in objects if each["kind"] in _KINDS and _component(each) == component]
    number = hashlib.sha256(orjson.dumps(own)).hexdigest()[:6]
    made = [_of_world(cluster, each, number) for each in own]
    (account,) = (each["metadata"]["name"] for each in made if each["kind"] == "ServiceAccount")
    if account not in cluster.accounts:
        for each in made:
            await cluster.install(_KINDS[each["kind"]], each)
        for role in (each for each in made if each["kind"] in ("ClusterRole", "Role")):
            await cluster.wait_until(partial(_in_force, cluster, account, role), f"{role['metadata']['name']} is known")
        cluster.accounts[account] = await cluster.token(account)
    return cluster.accounts[account]


def _values(settings: Settings, *, dry_run: bool) -> Values:
    """What the chart's roles depend on."""
    rules, queue = settings.node_rebalance, settings.signals.sqs
    return {
        "config": {
            "node-rebalance": {"run": rules.run, "zonal-volume-policy": rules.zonal_volume_policy},
            "worker-scaler": {"run": settings.worker_scaler.run, "namespace": _WORKERS},
            "webhook": {"volume-zone-awareness": settings.webhook.volume_zone_awareness},
            "signals": {"sqs": {"queue-url": queue.queue_url, "region": queue.region}},
        },
        "reconciler": {"dryRun": dry_run},
        "certificates": {"mode": "existing", "existingSecret": "a-secret"} if settings.certs.mode == "files" else {},
    }


def _component(rendered: Object) -> str:
    return str(rendered["metadata"]["labels"].get("app.kubernetes.io/component", ""))


def _of_world(cluster: World, rendered: Object, number: str) -> Object:
    """The object under a name of the world's own. The account and its roles go by one name, but for the second role in
    what is one namespace here."""

    def name(of: Object) -> str:
        part = "-workers" if of.get("namespace") == _WORKERS else ""
        return f"{of['name']}{part}-{cluster.name}-{number}"

    body = deepcopy(rendered)
    metadata = body["metadata"]
    where = metadata.get("namespace")
    assert where in (None, NAMESPACE, _WORKERS), where
    metadata["name"] = name(rendered["metadata"])
    if where:
        metadata["namespace"] = cluster.namespace
    for subject in body.get("subjects", ()):
        assert subject["namespace"] == NAMESPACE
        subject |= {"name": name(subject), "namespace": cluster.namespace}
    if "roleRef" in body:
        body["roleRef"]["name"] = name({**body["roleRef"], "namespace": where})
    for rule in body.get("rules", ()):
        if rule["resources"] == [MUTATING_WEBHOOKS.plural] and "resourceNames" in rule:
            rule["resourceNames"] = [f"{each}-{cluster.name}" for each in rule["resourceNames"]]
    return body


async def _in_force(cluster: World, account: str, role: Object) -> bool:
    """Whether the API server knows the role and its binding: it follows them, and is a moment late."""
    rule = role["rules"][0]
    resource, _, subresource = rule["resources"][0].partition("/")
    names: Sequence[str] = rule.get("resourceNames", [""])
    attributes = {
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": names[0],
        "namespace": role["metadata"].get("namespace", ""),
    }
    user = f"system:serviceaccount:{cluster.namespace}:{account}"
    body = {"spec": {"user": user, "resourceAttributes": attributes}}
    answer = await cluster.client.create(_REVIEWS, body)
    return bool(answer["status"].get("allowed"))
