"""A worker in every running pod of a namespace, reached at the pod's address and by its names in the cluster's DNS."""

from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from ebbtide.sim.kinds import NODES, PODS
from ebbtide.sim.loaders.worker import LoadWorker
from ebbtide.sim.storage import Storage
from ebbtide.sim.stored import DELETED, Event, Object, Stored
from ebbtide.sim.wire import Network

W = TypeVar("W", bound=LoadWorker)
PORT: Final = 19500
_DOMAIN: Final = ".svc.cluster.local"


class _Life(NamedTuple):
    """Of a container: its pod's UID, its address, and when it began."""

    uid: str
    address: str
    began: str


class Floor(Generic[W]):
    """Follows the pods from the moment it is made. `workers` are those that answer now, by the names of their pods.

    `new` makes the worker for a pod of that name; `on_gone` hears of each whose container is there no more.
    """

    def __init__(
        self,
        storage: Storage,
        namespace: str,
        new: Callable[[str], W],
    ) -> None:
        self._storage = storage
        self._namespace = namespace
        self._new = new
        self.on_gone: Callable[[str, W], None] = lambda _pod, _worker: None
        self.network = Network(self._resolve)
        self._workers: dict[str, W] = {}
        self._lives: dict[str, _Life] = {}
        self._everybody: list[W] = []
        self._subscription = storage.subscribe(self._changed, PODS, NODES).open()

    @property
    def workers(self) -> Mapping[str, W]:
        return self._workers

    def pod_at(self, address: str) -> str:
        """The name of the pod whose worker answers there, "" for none."""
        return next((name for name, life in self._lives.items() if life.address == address), "")

    async def close(self) -> None:
        self._subscription.close()
        for worker in self._everybody:
            await worker.close()

    def _changed(self, event: Event) -> None:
        """Nothing of a pod changes when its machine is taken, and still nothing runs there any more."""
        if event.kind is PODS:
            self._look(event.stored.name)
        elif event.type == DELETED:
            for name in list(self._lives):
                self._look(name)

    def _look(self, name: str) -> None:
        live = self._storage.peek(PODS, name, self._namespace)
        life = None if live is None or self._storage.peek(NODES, _host(live)) is None else _life(live)
        if life == self._lives.get(name):
            return
        self._end(name)
        if life is not None:
            self._begin(name, life)

    def _begin(self, name: str, life: _Life) -> None:
        self._lives[name] = life
        worker = self._workers[name] = self._new(name)
        self._everybody.append(worker)
        self.network.listen(life.address, PORT, worker.accept)

    def _end(self, name: str) -> None:
        life = self._lives.pop(name, None)
        if life is not None:
            self.network.leave(life.address, PORT)
            self.on_gone(name, self._workers.pop(name))

    def _resolve(self, host: str) -> str:
        labels = host.removesuffix(_DOMAIN).split(".")
        if labels[-1] != self._namespace:
            return host
        pods = [pod for pod in self._storage.scan(PODS, self._namespace) if _answers_to(pod.body, labels[:-1])]
        return str((pods[0].body.get("status") or {}).get("podIP") or "") if pods else ""


def _answers_to(pod: Object, labels: list[str]) -> bool:
    """Whether the pod's name is `<service>` or `<pod>.<service>`."""
    spec = pod["spec"]
    return bool(spec.get("subdomain") == labels[-1] and labels[:-1] in ([], [spec.get("hostname")]))


def _host(pod: Stored) -> str:
    return str(pod.body["spec"].get("nodeName") or "")


def _life(pod: Stored) -> _Life | None:
    """The container that runs there now."""
    status = pod.body.get("status") or {}
    for container in status.get("containerStatuses") or ():
        running = container.get("state", {}).get("running")
        if running and status.get("podIP"):
            return _Life(pod.uid, status["podIP"], running["startedAt"])
    return None
