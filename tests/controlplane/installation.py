"""A release of the chart on the real control plane, and its programs as the kubelet would run them.

No container runs here: the fake kubelets call every pod Ready. What is in the pods of a Deployment is therefore run
beside them, as a process with the arguments, environment, configuration and ServiceAccount token of such a pod.
"""

import asyncio
import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS, SECRETS
from tests.chart.helm import CHART, Helm, Said, Values
from tests.chart.permissions import Grant, asked, granted, unused
from tests.controlplane.processes import free_port
from tests.controlplane.program import Process, probe, python
from tests.controlplane.proxy import FaultProxy, watched
from tests.controlplane.world import Object, World, is_ready

HOST: Final = "127.0.0.1"
# Addresses that a Service may lead to: those of other pods here are of this machine itself, which it may not.
POD_CIDR: Final = "198.18.64.0/20"
# An upgrade with what it waits for, on a busy machine.
WITHIN: Final = "--timeout=300s"
# Why a verb `list` is granted beside `watch` although it is not used here.
NO_STREAMED_LISTS: Final = "a watch begins with a list of its own, but for servers that cannot do that"
# Timings of a test, on top of the release's own configuration. The lease is a long one: on a busy machine a leader may
# not be run for seconds.
_QUICK: Final = {
    "EBBTIDE__LEADER_ELECTION__LEASE_DURATION": "30s",
    "EBBTIDE__LEADER_ELECTION__RENEW_DEADLINE": "20s",
    "EBBTIDE__LEADER_ELECTION__RETRY_PERIOD": "500ms",
    "EBBTIDE__NODE_REBALANCE__CLUSTER_AUTOSCALER_STABILIZATION": "0s",
    "EBBTIDE__WEBHOOK__DRAIN": "1s",
}
# What Helm keeps of a release: what is there, and what `helm test` makes.
_RENDERED: Final = ("manifest", "hooks")


class Release:
    """One release, in a namespace of its own; the world's is that of the workers. Its webhook is called at `port`,
    by default one of its own."""

    def __init__(self, cluster: World, folder: Path, version: str = "helm4", *, port: int = 0) -> None:
        self.cluster = cluster
        self.name = cluster.name
        self.fullname = f"{cluster.name}-ebbtide"
        self.namespace = f"{cluster.name}-system"
        self.port = port or free_port()
        self.helm = Helm(version, folder / "helm", cluster.plane.kubeconfig)
        self._folder = folder
        self._ways: dict[str, list[FaultProxy]] = defaultdict(list)

    def values(self, **further: Any) -> Values:
        """What makes it one of this world, with `further` values."""
        config = {
            "node-rebalance": {"node-groups": [self.cluster.group]},
            "worker-scaler": {"namespace": self.cluster.namespace},
        }
        webhook = {"url": f"https://{HOST}:{self.port}/mutate"}
        return _merged({"config": config, "webhook": webhook}, further)

    @asynccontextmanager
    async def home(self) -> AsyncIterator[None]:
        """Its namespace, which lets in only what is "restricted"."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        await self.cluster.client.create(NAMESPACES, {"metadata": {"name": self.namespace, "labels": labels}})
        try:
            yield
        finally:
            await self.cluster.client.delete(NAMESPACES, self.namespace)

    async def install(self, **further: Any) -> Said:
        return await self._done("install", self.name, str(CHART), "--wait", values=self.values(**further))

    async def upgrade(self, **further: Any) -> Said:
        return await self._done("upgrade", self.name, str(CHART), "--wait", values=self.values(**further))

    async def rollback(self, revision: int) -> Said:
        return await self._done("rollback", self.name, str(revision), "--wait")

    async def uninstall(self) -> Said:
        return await self._done("uninstall", self.name, "--wait")

    async def test(self) -> Said:
        """`helm test`, with its pod run here; it ends as the pod does."""
        testing = asyncio.ensure_future(self.helm.run("test", self.name, "--namespace", self.namespace, WITHIN))
        try:
            await self._end(f"{self.fullname}-test", testing)
        finally:
            said = await testing
        return said

    async def _end(self, name: str, testing: "asyncio.Future[Said]") -> None:
        """What the kubelet does with a pod that runs to its end."""

        async def there() -> Object | None:
            assert not testing.done(), testing.result()
            with suppress(NotFound):
                found = await self.cluster.client.get(PODS, name, namespace=self.namespace)
                return found if is_ready(found) else None
            return None

        pod = await self.cluster.wait_until(there, f"pod {name} is there")
        assert pod is not None
        async with self.contained(pod, pod["spec"]["containers"][0]) as process:
            code = await process.process.wait()
        phase = {"phase": "Failed" if code else "Succeeded"}
        await self.cluster.client.patch_merge(
            PODS, name, {"status": phase}, namespace=self.namespace, subresource="status"
        )

    async def _done(self, verb: str, *words: str, values: Values | None = None) -> Said:
        said = await self.helm.run(verb, *words, "--namespace", self.namespace, WITHIN, values=values)
        assert said.code == 0, said.err
        return said

    async def configuration(self) -> str:
        """The configuration file of its programs."""
        found = await self.cluster.client.get(CONFIG_MAPS, f"{self.fullname}-config", namespace=self.namespace)
        return str(found["data"]["ebbtide.toml"])

    async def token(self, pod: Object) -> str:
        """A token of the pod's ServiceAccount, for as long as there is that pod on its node."""
        account = pod["spec"]["serviceAccountName"]
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        names = {key: pod["metadata"][key] for key in ("name", "uid")}
        body = {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", **names}}}
        answer = await asyncio.to_thread(self.cluster.plane.call, "POST", path, body)
        return str(answer["status"]["token"])

    async def pods(self, component: str) -> list[Object]:
        """The Ready pods of a component."""
        selector = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component={component}"
        found, _ = await self.cluster.client.list_all(PODS, namespace=self.namespace, label_selector=selector)
        return [pod for pod in found if is_ready(pod)]

    async def granted(self, component: str) -> set[str]:
        """What a component is granted, in words: `get leases.coordination.k8s.io of the release`."""
        return {self._words(grant) for grant in await self._grants(component)}

    async def unused(self, component: str) -> set[str]:
        """What of that it has not needed so far."""
        seen = [seen for way in self._ways[component] for seen in way.requests if seen.status]
        requests = [each for one in seen for each in asked(one.method, one.path, one.status or 0)]
        return {self._words(grant) for grant in unused(await self._grants(component), requests)}

    async def _grants(self, component: str) -> list[Grant]:
        said = [await self.helm.run("get", what, self.name, "--namespace", self.namespace) for what in _RENDERED]
        objects = [each for one in said for each in yaml.safe_load_all(one.out) if each]
        found = granted(objects, f"{self.fullname}-{component}")
        assert found, component
        return found

    def _words(self, grant: Grant) -> str:
        where = {"": "", self.namespace: " of the release", self.cluster.namespace: " of the workers"}
        return f"{grant.verb} {'.'.join(filter(None, (grant.resource, grant.group)))}{where[grant.namespace]}"

    @asynccontextmanager
    async def running(self, component: str, replica: int = 0, **environ: str) -> AsyncIterator[Process]:
        """What is in one of the pods of a component, as a process, ended in order: a lease is free again."""
        pod = (await self.pods(component))[replica]
        async with self.contained(pod, pod["spec"]["containers"][0], **environ) as process:
            yield process
            assert await process.terminate() == 0, "\n".join(process.log)

    async def ready(self, process: Process) -> None:
        """Returns when its readiness probe is good."""
        url = await process.serving()

        async def good() -> bool:
            return (await probe(url, "/readyz"))[0] == 200

        await self.cluster.wait_until(good, "\n".join(process.log))

    async def mount_again(self, component: str, replica: int = 0) -> None:
        """What a kubelet does some time after a mounted Secret has changed."""
        pod = (await self.pods(component))[replica]
        await self._mounted(pod, pod["spec"]["containers"][0], self._folder / pod["metadata"]["name"])

    @asynccontextmanager
    async def contained(
        self, pod: Object, container: Object, proxy: FaultProxy | None = None, /, **environ: str
    ) -> AsyncIterator[Process]:
        """A container of that pod, as a process, by way of the proxy or of one of its own."""
        folder = self._folder / pod["metadata"]["name"]
        folder.mkdir(exist_ok=True)
        given = {each["name"]: _value(each, pod) for each in container.get("env", ())}
        given |= await self._mounted(pod, container, folder)
        # The image starts `ebbtide`, unless a container has a command of its own.
        module = container.get("command", ["python", "-m", "ebbtide"])
        assert module[:2] == ["python", "-m"], module
        environ = {**given, **self._here(folder), **environ}
        async with nullcontext(proxy) if proxy else watched(self.cluster.plane) as way:
            self._ways[pod["metadata"]["labels"]["app.kubernetes.io/component"]].append(way)
            (folder / "kubeconfig").write_text(await self._kubeconfig(pod, way))
            async with python(*module[1:], *container["args"], environ=environ) as running:
                yield running

    def _here(self, folder: Path) -> Mapping[str, str]:
        """Addresses of this machine, and timings of a test."""
        return {
            **_QUICK,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PYTHONUNBUFFERED": "1",
            "EBBTIDE__WEBHOOK__LISTEN": f"{HOST}:{self.port}",
            "EBBTIDE__WEBHOOK__HEALTH_LISTEN": f"{HOST}:0",
            "EBBTIDE__OBSERVABILITY__LISTEN": f"{HOST}:0",
            "EBBTIDE__WORKER_SCALER__LISTEN": f"{HOST}:0",
        }

    async def _mounted(self, pod: Object, container: Object, folder: Path) -> Mapping[str, str]:
        """Configuration file and certificate, by the way that the pod has to them."""
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        given: dict[str, str] = {}
        for mount in container["volumeMounts"]:
            volume, namespace = volumes[mount["name"]], self.namespace
            if mount["name"] == "config":
                found = await self.cluster.client.get(CONFIG_MAPS, volume["configMap"]["name"], namespace=namespace)
                (folder / "ebbtide.toml").write_text(found["data"][mount["subPath"]])
                given["EBBTIDE_CONFIG"] = str(folder / "ebbtide.toml")
            elif mount["name"] == "tls":
                found = await self.cluster.client.get(SECRETS, volume["secret"]["secretName"], namespace=namespace)
                given["EBBTIDE__CERTS__DIRECTORY"] = str(folder)
                for name, value in found["data"].items():
                    (folder / name).write_bytes(b64decode(value))
        return given

    async def _kubeconfig(self, pod: Object, way: FaultProxy) -> str:
        assert pod["spec"]["automountServiceAccountToken"]
        token = await self.token(pod)
        cluster = {"server": way.url, "certificate-authority": str(self.cluster.plane.ca_file)}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "pod",
                "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
                "clusters": [{"name": "pod", "cluster": cluster}],
                "users": [{"name": "pod", "user": {"token": token}}],
            }
        )


async def beyond_this_machine(cluster: World, nodes: Iterable[str]) -> None:
    """Gives pods on these nodes addresses that a Service may lead to; nobody can be reached there."""
    for node in nodes:
        await cluster.client.patch_merge(NODES, node, {"spec": {"podCIDR": POD_CIDR, "podCIDRs": [POD_CIDR]}})


def _merged(values: dict[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are laid over each other, as Helm does it with several files."""
    merged = dict(values)
    for key, value in further.items():
        table = isinstance(value, Mapping) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if table else value
    return merged


def _value(variable: Object, pod: Object) -> str:
    """An environment variable as the kubelet resolves it."""
    if "value" in variable:
        return str(variable["value"])
    found: Any = pod
    for part in variable["valueFrom"]["fieldRef"]["fieldPath"].split("."):
        found = found[part]
    return str(found)
