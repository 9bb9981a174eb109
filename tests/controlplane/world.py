"""A clean corner of a control plane for one test, and the verbs to set it up and to look at it.

Every test gets a namespace, a node group label and node names of its own, so that tests share the servers.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from ebbtide import vocabulary
from ebbtide.kube.access import Access, from_url
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Conflict
from ebbtide.kube.resources import DEPLOYMENTS, NAMESPACES, NODES, PDBS, PODS, STATEFUL_SETS, Resource
from ebbtide.model import format_time
from tests.controlplane.servers import ControlPlane

T = TypeVar("T")
Object = dict[str, Any]
Rules = Sequence[Mapping[str, Sequence[str]]]

# Far more than every controller needs to do its part, on a machine with many other things to do: no test fails because
# something took its time, and one whose condition never holds fails later.
PATIENCE = 120.0
POLL_INTERVAL = 0.05

FOREIGN_TAINT: Mapping[str, str] = {"key": "example.com/dedicated", "value": "db", "effect": "PreferNoSchedule"}
# Set by the node lifecycle controller for `spec.unschedulable`.
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_LINGERS = "tests.ebbtide/lingers"


async def wait_until(
    condition: Callable[[], Awaitable[T]],
    what: str,
    *,
    seconds: float = PATIENCE,
    check: Callable[[], None] | None = None,
) -> T:
    """The condition's first truthy value. Raises AssertionError, with the last value, when the time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not (value := await condition()):
        if check is not None:
            check()
        if loop.time() > deadline:
            raise AssertionError(f"not after {seconds:.0f} s: {what}; last seen: {value!r}")
        await asyncio.sleep(POLL_INTERVAL)
    return value


class World:
    """One test's namespace and node group. `client` is admin's; what is made here goes when the test ends."""

    def __init__(self, plane: ControlPlane, client: Client) -> None:
        self.plane = plane
        self.client = client
        self.name = f"t-{secrets.token_hex(4)}"
        self.namespace = self.name
        self.group = self.name
        # Tokens of accounts of the chart, by the names of the accounts.
        self.accounts: dict[str, str] = {}
        self._nodes: list[str] = []
        self._cluster_scoped: list[str] = []

    # --- access -------------------------------------------------------------------------------------------------

    def access(self, token: str = "") -> Access:
        """Access with that token, admin's without one."""
        return from_url(self.plane.server, token=token or self.plane.admin_token, ca_file=self.plane.ca_file)

    async def account(self, name: str, rules: Rules, *, inside: Rules = ()) -> str:
        """A service account in the world's namespace and a token of it. It has the RBAC rules `rules` everywhere, and
        `inside` in the world's namespace."""
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        await self._call("POST", accounts, {"metadata": {"name": name}})
        self._cluster_scoped += await self._grant(name, rules, "")
        if inside:
            await self._grant(name, inside, f"/namespaces/{self.namespace}")
        return await self.token(name)

    async def token(self, account: str) -> str:
        """A token of a service account in the world's namespace."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        answer = await self._call("POST", path, {"spec": {"expirationSeconds": 3600}})
        return str(answer["status"]["token"])

    async def install(self, resource: Resource, body: Object) -> None:
        """Makes an object, in the world's namespace if its kind is of one. It goes with the world."""
        await self.client.create(resource, body, namespace=self.namespace if resource.namespaced else "")
        if not resource.namespaced:
            self._cluster_scoped.append(resource.path(name=body["metadata"]["name"]))

    async def _grant(self, account: str, rules: Rules, where: str) -> list[str]:
        """Role and binding, those of the whole cluster where `where` is ""; returns their paths."""
        role, kind, group = f"{self.name}-{account}", "Role" if where else "ClusterRole", "rbac.authorization.k8s.io"
        collection = f"/apis/{group}/v1{where}/{kind.lower()}"
        await self._call("POST", f"{collection}s", {"metadata": {"name": role}, "rules": list(rules)})
        binding = {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": group, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": self.namespace}],
        }
        await self._call("POST", f"{collection}bindings", binding)
        return [f"{collection}s/{role}", f"{collection}bindings/{role}"]

    # --- nodes --------------------------------------------------------------------------------------------------

    async def add_nodes(
        self,
        zone: str,
        count: int,
        *,
        group: str | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        **labels: str,
    ) -> list[str]:
        """That many nodes of the group in the zone, Ready and open for pods. Returns their names."""
        names = [f"{self.name}-{zone}-{len(self._nodes) + index}" for index in range(count)]
        self._nodes += names
        for name in names:
            await self.client.create(NODES, self._node(name, zone, group or self.group, taints, labels))
        for name in names:
            await self.wait_until(partial(self._open, name), f"node {name} is Ready")
        return names

    async def renew_node(self, name: str, zone: str) -> None:
        """A node of a name that was used before: another machine, with another UID."""
        await self.client.create(NODES, self._node(name, zone, self.group, (), {}))
        await self.wait_until(partial(self._open, name), f"node {name} is Ready")

    async def heartbeat(self, node: str) -> None:
        """A status update that changes nothing but its own time, as kubelets send it."""
        raw = await self.client.get(NODES, node)
        conditions = raw["status"]["conditions"]
        for condition in conditions:
            condition["lastHeartbeatTime"] = format_time(time.time() // 1)
        await self.client.patch_merge(NODES, node, {"status": {"conditions": conditions}}, subresource="status")

    async def signal(self, node: str, value: str = "a1b2c3", time_added: str | None = None) -> None:
        """What the termination handler does: the signal taint, at the end of the list. `time_added` is RFC 3339."""
        taint = {"key": vocabulary.SIGNAL_TAINT_KEY, "value": value, "effect": "NoSchedule"}
        await self.add_taint(node, taint | ({"timeAdded": time_added} if time_added else {}))

    async def clear_signal(self, node: str) -> None:
        await self.drop_taint(node, vocabulary.SIGNAL_TAINT_KEY)

    async def add_taint(self, node: str, taint: Mapping[str, str]) -> None:
        await self._edit_taints(node, lambda taints: [*taints, dict(taint)])

    async def drop_taint(self, node: str, key: str) -> None:
        await self._edit_taints(node, lambda taints: [taint for taint in taints if taint["key"] != key])

    async def cordon(self, node: str, *, cordoned: bool = True) -> None:
        """As `kubectl cordon`; returns when the controllers have followed with their taint."""
        await self.client.patch_merge(NODES, node, {"spec": {"unschedulable": cordoned}})

        async def followed() -> bool:
            return (_UNSCHEDULABLE in await self.taint_keys(node)) is cordoned

        await self.wait_until(followed, f"node {node} has the taint of a cordon: {cordoned}")

    async def taints(self, node: str) -> list[Object]:
        found: list[Object] = (await self.client.get(NODES, node))["spec"].get("taints", [])
        return found

    async def taint_keys(self, node: str) -> list[str]:
        return [taint["key"] for taint in await self.taints(node)]

    # --- workloads ----------------------------------------------------------------------------------------------

    async def deployment(self, name: str, replicas: int, **pod: Any) -> Object:
        """A Deployment on the world's nodes. `pod` overrides fields of the pod's spec; see `_template`."""
        return await self.client.create(DEPLOYMENTS, self._workload(name, replicas, pod), namespace=self.namespace)

    async def stateful_set(self, name: str, replicas: int, **pod: Any) -> Object:
        body = self._workload(name, replicas, pod)
        body["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        return await self.client.create(STATEFUL_SETS, body, namespace=self.namespace)

    async def daemon_set(self, name: str, **pod: Any) -> None:
        """A DaemonSet on every node of the world."""
        body = self._workload(name, 0, pod)
        del body["spec"]["replicas"]
        await self._call("POST", f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets", body)

    async def pod(self, name: str, **pod: Any) -> Object:
        """A pod without a controller."""
        template = self._template(name, pod)
        template["metadata"]["name"] = name
        return await self.client.create(PODS, template, namespace=self.namespace)

    async def budget(self, name: str, labels: Mapping[str, str], **bound: int) -> Object:
        """A PodDisruptionBudget over these labels: `maxUnavailable=…` or `minAvailable=…`."""
        body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": dict(labels)}, **bound}}
        return await self.client.create(PDBS, body, namespace=self.namespace)

    def template(self, name: str, **pod: Any) -> Object:
        """Metadata and spec of a pod, as the workloads here have it."""
        return self._template(name, pod)

    async def pods(self, app: str = "") -> list[Object]:
        """The world's pods, those of one workload with `app`."""
        selector = f"app={app}" if app else ""
        return [pod async for pod in self.client.list(PODS, namespace=self.namespace, label_selector=selector)]

    async def ready_pods(self, app: str, count: int) -> list[Object]:
        """Waits until that many pods of the workload, and no others, are there and Ready."""

        async def settled() -> list[Object]:
            pods = await self.pods(app)
            return pods if len(pods) == count and all(is_ready(pod) for pod in pods) else []

        return await self.wait_until(settled, f"{count} Ready pods of {app}")

    async def zone_of(self, pod: Object) -> str:
        node = await self.client.get(NODES, pod["spec"]["nodeName"])
        return str(node["metadata"]["labels"][vocabulary.ZONE_LABEL])

    async def wait_until(self, condition: Callable[[], Awaitable[T]], what: str, *, seconds: float = PATIENCE) -> T:
        """`wait_until`, ended early when a server dies."""
        return await wait_until(condition, what, seconds=seconds, check=self.plane.check)

    # --- life ---------------------------------------------------------------------------------------------------

    async def set_up(self) -> None:
        """The namespace, with the service account that every pod needs."""
        await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts?fieldSelector=metadata.name=default"

        async def served() -> bool:
            return bool((await self._call("GET", account))["items"])

        await self.wait_until(served, f"namespace {self.namespace} has its service account")

    async def tear_down(self) -> None:
        """The namespace first: it lets nobody make new pods, so that nothing is left on the nodes."""
        await self._call("DELETE", f"/api/v1/namespaces/{self.namespace}")
        await self._call("DELETE", f"/api/v1/namespaces/{self.namespace}/pods?gracePeriodSeconds=0")
        await self._call("DELETE", f"/api/v1/nodes?labelSelector={self._label()}")
        for path in self._cluster_scoped:
            await self._call("DELETE", path)

    async def _call(self, method: str, path: str, body: object = None) -> Object:
        return await asyncio.to_thread(self.plane.call, method, path, body)

    def _label(self) -> str:
        return f"tests.ebbtide/world={self.name}"

    def _node(
        self, name: str, zone: str, group: str, taints: Sequence[Mapping[str, str]], labels: Mapping[str, str]
    ) -> Object:
        own = {"tests.ebbtide/world": self.name, "kubernetes.io/hostname": name}
        cell = {vocabulary.NODE_GROUP_LABEL: group, vocabulary.ZONE_LABEL: zone}
        return {
            "metadata": {"name": name, "labels": {**own, **cell, **labels}},
            "spec": {"taints": [dict(taint) for taint in taints]},
        }

    async def _open(self, node: str) -> bool:
        """Ready, and the taint that the controllers put on every new node is gone."""
        return is_ready(await self.client.get(NODES, node)) and not any(
            key.startswith("node.kubernetes.io/") for key in await self.taint_keys(node)
        )

    async def _edit_taints(self, node: str, edit: Callable[[list[Object]], list[Object]]) -> None:
        """Like the handlers of the wild: read, write the whole list, on the version that was read, until that is still
        the live one."""
        while True:
            raw = await self.client.get(NODES, node)
            version = raw["metadata"]["resourceVersion"]
            taints = edit(raw["spec"].get("taints", []))
            change = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
            with suppress(Conflict):
                await self.client.patch_merge(NODES, node, change)
                return

    def _workload(self, name: str, replicas: int, pod: Mapping[str, Any]) -> Object:
        return {
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": self._template(name, pod),
            },
        }

    def _template(self, app: str, pod: Mapping[str, Any]) -> Object:
        """Pods stand on the world's nodes and tolerate nothing. `labels`, `annotations` and `lingers` are for the
        metadata: a lingering pod takes its whole grace period to end. All else is the pod's spec."""
        spec = dict(pod)
        annotations = dict(spec.pop("annotations", {}))
        if spec.pop("lingers", False):
            annotations[_LINGERS] = ""
        labels = {"app": app, **spec.pop("labels", {})}
        return {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {
                "nodeSelector": {vocabulary.NODE_GROUP_LABEL: self.group},
                "containers": [{"name": "main", "image": "none"}],
                **spec,
            },
        }


def is_ready(raw: Object) -> bool:
    """Whether a node or a pod has the condition Ready, and is not on its way out."""
    if "deletionTimestamp" in raw["metadata"]:
        return False
    conditions = raw.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@asynccontextmanager
async def world(plane: ControlPlane) -> AsyncIterator[World]:
    """A world, from its namespace to its end."""
    access = from_url(plane.server, token=plane.admin_token, ca_file=plane.ca_file)
    async with Client(access, field_manager="ebbtide-tests", user_agent="ebbtide-tests") as client:
        created = World(plane, client)
        await created.set_up()
        try:
            yield created
        finally:
            await created.tear_down()
