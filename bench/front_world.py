"""What stands around a reconciler whose front is measured: an API server, and a pod of the template with its tasks.

`python -m bench.front_world API_PORT WORKER_PORT TASKS` serves until it is killed: the embedded cluster, without
anybody who would start further pods, and a worker double.
"""

import asyncio
import sys
from typing import Final

from aiohttp import web

from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.stored import Object
from reconciler.scaler.task import TaskId
from tests.doubles.worker import Worker
from tests.reconciler.scaler.templates import NAMESPACE, template

HOME: Final = "ebbtide-system"
WORKER_HOST: Final = "127.0.0.7"
_IMPORT: Final = 1701753296955293956


def task(number: int) -> TaskId:
    return TaskId(1, _IMPORT, number, 0)


def pod(owner: Object) -> Object:
    """The template's only pod, Running and Ready at the worker's address."""
    body = objects.pod("tikv-api-0", namespace=NAMESPACE, node="node", owner=owner)
    state = {"running": {"startedAt": objects.LONG_AGO}}
    container = {"name": "tikv", "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": state}
    status = {"podIP": WORKER_HOST, "containerStatuses": [container | {"containerID": "containerd://first"}]}
    return objects.changed(body, {"status": status})


async def serve(api_port: int, worker_port: int, tasks: int) -> None:
    async with Cluster() as cluster:
        cluster.create(*(objects.namespace(name) for name in (HOME, NAMESPACE)), objects.node("node"))
        (owner,) = cluster.create(template())
        cluster.create(pod(owner))
        worker = Worker()
        worker.begin(*(str(task(number)) for number in range(tasks)))
        runner = web.ServerRunner(web.Server(cluster.api.handle, handler_cancellation=True, access_log=None))
        await runner.setup()
        async with worker.listening(WORKER_HOST, worker_port):
            await web.TCPSite(runner, "127.0.0.1", api_port).start()
            await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
