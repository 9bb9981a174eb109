"""Load-data workers with the permissions of the chart: made, used, marked, and taken away again."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.expectations import all_in_zone
from tests.controlplane.installation import HOST, NO_STREAMED_LISTS, Release
from tests.controlplane.load_data import site
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import World
from tests.doubles.worker import CLUSTER

pytestmark = pytest.mark.controlplane

LARGE = 3 << 30
SCALER: dict[str, Any] = {
    "run": True,
    "shared-pool-enabled": True,
    "cluster-id": CLUSTER,
    "worker-address": "pod-ip",
    "refresh-interval": "1s",
    "expire-seconds": 2,
    "shared-idle-pod-expire-sec": 2,
    "shared-ended-task-grace-sec": 1,
    "shared-sts-config": {"storage-size-gb": 1, "request-memory": 1, "limit-memory": 1},
}


# What is granted and was not needed here, and when it is.
UNUSED = {
    "delete persistentvolumeclaims of the workers": "volumes of a worker whose set is gone, after some minutes",
    "delete pods": "waiting pods that are to be admitted again",
    "delete pods of the workers": "idle workers whose volumes lie in a blocked zone",
    "list mutatingwebhookconfigurations.admissionregistration.k8s.io": NO_STREAMED_LISTS,
    "list namespaces": NO_STREAMED_LISTS,
    "list nodes": NO_STREAMED_LISTS,
    "list persistentvolumeclaims": NO_STREAMED_LISTS,
    "list persistentvolumeclaims of the workers": NO_STREAMED_LISTS,
    "list persistentvolumes": NO_STREAMED_LISTS,
    "list pods": NO_STREAMED_LISTS,
    "list pods of the workers": NO_STREAMED_LISTS,
    "list secrets of the release": NO_STREAMED_LISTS,
    "list statefulsets.apps of the workers": NO_STREAMED_LISTS,
    "update secrets of the release": "the certificate is renewed, or its CA replaced",
}
# What may have been needed too, where the machine is slow.
LATE = {
    "get pods of the workers": "a worker is removed whose pod does not run: whether that is still so",
    "list events.events.k8s.io of the workers": "a worker's pod is not made in time: why",
}


@pytest.fixture
async def release(cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    made = Release(cluster, tmp_path)
    async with made.home():
        yield made


async def test_workers_come_and_go_and_nothing_is_forbidden(
    release: Release, cluster: World, proxy: FaultProxy
) -> None:
    """A small task goes to the shared pool, a large one to a worker of its own; both end, and so do the workers."""
    await cluster.add_nodes("a", 2)
    async with site(cluster, proxy) as workers:
        await release.install(config={"worker-scaler": {**SCALER, "worker-port": workers.worker_port}})
        environ = {"EBBTIDE__WORKER_SCALER__LISTEN": f"{HOST}:{workers.port}"}
        async with release.running("reconciler", 0, **environ) as reconciler:
            await release.ready(reconciler)
            for number, size in enumerate((1, LARGE), start=1):
                await workers.client(f"1-170-{number}-0", size).run()
            await workers.nothing_left()
            await _leave_a_zone(cluster)
            assert await release.unused("reconciler") - LATE.keys() == UNUSED.keys()
            assert LATE.keys() <= await release.granted("reconciler")
        await release.uninstall()


async def _leave_a_zone(cluster: World) -> None:
    """What is there for everybody else: a zone is blocked, and the pod on its signalled node goes elsewhere."""
    await cluster.deployment("other", 1)
    (pod,) = await cluster.ready_pods("other", 1)
    await cluster.add_nodes("b", 1)
    await cluster.signal(pod["spec"]["nodeName"], value="1700000000")
    await all_in_zone(cluster, "other", 1, "b")
