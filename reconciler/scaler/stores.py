"""Pods, sets and claims of the workers' namespace, each watched once for all parts of the scaler."""

from collections.abc import Iterable

from ebbtide.kube.client import Client
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from ebbtide.kube.store import Store
from ebbtide.service.connection import StoreAges
from reconciler.engine.beside import Beside
from reconciler.scaler.pods import WorkerClaim, WorkerPod, WorkerSet, worker_claim, worker_pod, worker_set
from reconciler.scaler.watching import PodWatch


class Stores:
    """The three stores, and who is whose pod.

    `watches` fill them and are to run while this process leads. In every term the stores count as unknown until each
    list is complete anew; what is in them stays for readers after the term.
    """

    def __init__(self, client: Client, namespace: str, ages: StoreAges) -> None:
        self.namespace = namespace
        self.pods: Store[WorkerPod] = Store(worker_pod)
        self.sets: Store[WorkerSet] = Store(worker_set)
        self.claims: Store[WorkerClaim] = Store(worker_claim)
        self._pod_watch = PodWatch(ages.follow(Reflector(client, PODS, self.pods, namespace=namespace)), self.pods)
        self.watches: tuple[Beside, ...] = (
            self._pod_watch,
            ages.follow(Reflector(client, STATEFUL_SETS, self.sets, namespace=namespace)),
            ages.follow(Reflector(client, PERSISTENT_VOLUME_CLAIMS, self.claims, namespace=namespace)),
        )
        self._members: dict[str, dict[str, WorkerPod]] = {}
        self.pods.subscribe(self._pod_changed)

    @property
    def unknown(self) -> str:
        """What has not been listed yet in this term, or is in doubt, in words; "" while all is known.

        While it is not nothing may be concluded from what is missing here: nobody shrinks, cleans up or forgets.
        """
        stores = {"pods": self.pods.synced, "statefulsets": self.sets.synced, "claims": self.claims.synced}
        missing = [kind for kind, synced in stores.items() if not synced]
        if missing:
            return f"the list of {' and '.join(missing)} is not complete yet"
        return "all pods seem to be gone at once" if self._pod_watch.doubtful else ""

    def pod(self, name: str) -> WorkerPod | None:
        return self.pods.get(f"{self.namespace}/{name}")

    def worker_set(self, name: str) -> WorkerSet | None:
        return self.sets.get(f"{self.namespace}/{name}")

    def claim(self, name: str) -> WorkerClaim | None:
        return self.claims.get(f"{self.namespace}/{name}")

    def pods_of(self, set_name: str) -> Iterable[WorkerPod]:
        """The pods that a StatefulSet of that name controls or has controlled; see their `set_uid`."""
        return tuple(self._members.get(set_name, {}).values())

    def _pod_changed(self, old: WorkerPod | None, new: WorkerPod | None) -> None:
        if old is not None and (new is None or new.set_name != old.set_name):
            members = self._members.get(old.set_name, {})
            members.pop(old.key, None)
            if not members:
                self._members.pop(old.set_name, None)
        if new is not None and new.set_name:
            self._members.setdefault(new.set_name, {})[new.key] = new
