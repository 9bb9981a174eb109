"""What runs in the pods of a release, from its start to its end, so that Deployments roll as they do on a cluster.

The fake kubelets call every pod Ready at once, and let it go at once. A pod with `ANNOTATIONS` is left to this one: its
program is a process here, the pod is Ready when the program's own probe is good, and is gone when the program has
ended. So the Deployment controller, and Helm, wait for what they wait for in production.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from ebbtide.kube.resources import PODS
from tests.controlplane.installation import HOST, Release
from tests.controlplane.processes import free_port
from tests.controlplane.program import Process, probe
from tests.controlplane.proxy import FaultProxy, watched
from tests.controlplane.webhook_service import DRAIN, Replica, Service
from tests.controlplane.world import POLL_INTERVAL, Object

# To be given to the chart as `podAnnotations`.
ANNOTATIONS: Final[Mapping[str, str]] = {"tests.ebbtide/probed-elsewhere": "", "tests.ebbtide/lingers": ""}
WEBHOOK: Final = "webhook"
RECONCILER: Final = "reconciler"

_COMPONENT: Final = "app.kubernetes.io/component"
# The chart's own periods, faster; as fast as `Service` looks.
_PROBE_EVERY: Final = 0.25


class Kubelet:
    """Runs the webhooks and reconcilers of a release; the webhooks are behind `service`.

    `running` are the processes by the names of their pods, `ended` the exit codes of those that have ended.
    """

    def __init__(self, release: Release, service: Service) -> None:
        self.running: dict[str, Process] = {}
        self.ended: dict[str, int] = {}
        self.way: FaultProxy
        self._release = release
        self._service = service
        self._leaving: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def working(self) -> AsyncIterator["Kubelet"]:
        """Until this ends; what still runs then is killed. All of them go by one way to the API server."""
        async with watched(self._release.cluster.plane) as self.way, asyncio.TaskGroup() as group:
            sync = group.create_task(self._sync())
            try:
                yield self
            finally:
                sync.cancel()

    async def settled(self) -> None:
        """What should run is Ready, and nothing else runs any more."""

        async def done() -> bool:
            ready = [pod for component in (WEBHOOK, RECONCILER) for pod in await self._release.pods(component)]
            return {pod["metadata"]["name"] for pod in ready} == set(self.running)

        await self._release.cluster.wait_until(done, "the release has settled")

    async def _sync(self) -> None:
        async with asyncio.TaskGroup() as pods:
            while True:
                for pod in await self._pods():
                    name = pod["metadata"]["name"]
                    if name not in self._leaving and "podIP" in pod["status"]:
                        self._leaving[name] = asyncio.Event()
                        pods.create_task(self._live(pod), name=name)
                    elif "deletionTimestamp" in pod["metadata"] and name in self._leaving:
                        self._leaving[name].set()
                await asyncio.sleep(POLL_INTERVAL)

    async def _pods(self) -> list[Object]:
        selector = f"app.kubernetes.io/instance={self._release.name},{_COMPONENT} in ({WEBHOOK},{RECONCILER})"
        client, namespace = self._release.cluster.client, self._release.namespace
        found, _ = await client.list_all(PODS, namespace=namespace, label_selector=selector)
        return found

    async def _live(self, pod: Object) -> None:
        """SIGTERM at its end, and no longer than its grace period from then on: there would be a SIGKILL."""
        name, spec = pod["metadata"]["name"], pod["spec"]
        port = free_port()
        environ = {"EBBTIDE__WEBHOOK__LISTEN": f"{HOST}:{port}", "EBBTIDE__WEBHOOK__DRAIN": DRAIN}
        async with self._release.contained(pod, spec["containers"][0], self.way, **environ) as process:
            self.running[name] = process
            with self._reachable(pod, Replica(name, port, await process.serving(), process)):
                await self._probe(pod, process)
                async with asyncio.timeout(spec["terminationGracePeriodSeconds"]):
                    self.ended[name] = await process.terminate()
            del self.running[name]
        await self._forget(name)

    @contextmanager
    def _reachable(self, pod: Object, replica: Replica) -> Iterator[None]:
        if pod["metadata"]["labels"][_COMPONENT] != WEBHOOK:
            yield
            return
        self._service.add(replica)
        try:
            yield
        finally:
            self._service.remove(replica.name)

    async def _probe(self, pod: Object, process: Process) -> None:
        """Says whether the pod is Ready, until it is to go."""
        url, leaving, told = await process.serving(), self._leaving[pod["metadata"]["name"]], False
        while not leaving.is_set():
            assert process.process.returncode is None, "\n".join(process.log)
            good = (await probe(url, "/readyz"))[0] == 200
            if good != told:
                await self._tell(pod, good)
                told = good
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROBE_EVERY):
                    await leaving.wait()

    async def _tell(self, pod: Object, good: bool) -> None:
        known = {"Initialized": True, "ContainersReady": good, "Ready": good}
        conditions = [{"type": kind, "status": str(value)} for kind, value in known.items()]
        client, name = self._release.cluster.client, pod["metadata"]["name"]
        status = {"status": {"conditions": conditions}}
        await client.patch_merge(PODS, name, status, namespace=self._release.namespace, subresource="status")

    async def _forget(self, name: str) -> None:
        """It has ended: there is nothing to wait for."""
        path = PODS.path(self._release.namespace, name)
        await self._release.cluster.client.request("DELETE", path, params={"gracePeriodSeconds": "0"})
