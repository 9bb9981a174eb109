"""API calls for the pool, each with its precondition. What a write returns is in the stores before its event."""

from collections.abc import Mapping
from typing import Any

from ebbtide import vocabulary
from ebbtide.kube import patch
from ebbtide.kube.client import Client
from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, STATEFUL_SETS
from reconciler.scaler.pods import WorkerClaim, WorkerPod, WorkerSet
from reconciler.scaler.shared import objects
from reconciler.scaler.shared.objects import Design
from reconciler.scaler.stores import Stores
from reconciler.scaler.template import Template, read_template

_REPLICAS = patch.pointer("spec", "replicas")


class Act:
    """Carries out decisions about the pool called `pool`. Every method raises what its request raised."""

    def __init__(self, client: Client, stores: Stores, pool: str, port: int) -> None:
        self._client = client
        self._stores = stores
        self._pool = pool
        self._port = port

    # --- the set and what goes with it ---------------------------------------------------------------------------

    async def template(self, name: str) -> Template:
        """Raises NotFound, UnusableTemplateError."""
        return read_template(await self._client.get(STATEFUL_SETS, name, namespace=self._stores.namespace))

    async def create(self, design: Design, replicas: int) -> Mapping[str, Any]:
        """The set. Raises AlreadyExists."""
        body = objects.stateful_set(self._stores.namespace, self._pool, design, replicas)
        return await self._client.create(STATEFUL_SETS, body, namespace=self._stores.namespace)

    async def keep_service(self) -> bool:
        """Creates the Service unless it is there; whether it did."""
        namespace = self._stores.namespace
        try:
            await self._client.get(SERVICES, self._pool, namespace=namespace, stale_ok=True)
        except NotFound:
            body = objects.service(namespace, self._pool, self._port)
            await self._client.create(SERVICES, body, namespace=namespace)
            return True
        return False

    async def scale(self, own: WorkerSet, replicas: int) -> None:
        """From exactly the version that was decided on. Raises Conflict, or Invalid, when it is another now."""
        await self._change(own, [patch.test(_REPLICAS, own.replicas), patch.replace(_REPLICAS, replicas)])

    async def redesign(self, own: WorkerSet, design: Design) -> None:
        """Pods that are made from now on are of this template."""
        annotation = design.only_pods(own.annotations.get(vocabulary.POOL_SPEC_ANNOTATION, ""))
        path = patch.pointer("metadata", "annotations", vocabulary.POOL_SPEC_ANNOTATION)
        await self._change(own, [patch.add("/spec/template", design.pod), patch.add(path, annotation)])

    async def fence(self, own: WorkerSet, who: str) -> None:
        """Lets every write that was decided on before fail."""
        metadata = {
            "resourceVersion": str(own.resource_version),
            "annotations": {vocabulary.FENCED_BY_ANNOTATION: who},
        }
        raw = await self._client.patch_merge(STATEFUL_SETS, own.name, {"metadata": metadata}, namespace=own.namespace)
        self._stores.sets.observe(raw)

    async def remove(self, own: WorkerSet) -> None:
        """Deletes an empty set, and nothing that goes with it."""
        await self._client.delete(
            STATEFUL_SETS,
            own.name,
            namespace=own.namespace,
            uid=own.uid,
            resource_version=own.resource_version,
            propagation="Orphan",
        )

    async def live_replicas(self) -> int:
        """As the server has it now, 0 without a set."""
        try:
            raw = await self._client.get(STATEFUL_SETS, self._pool, namespace=self._stores.namespace)
        except NotFound:
            return 0
        self._stores.sets.observe(raw)
        return int(raw["spec"].get("replicas") or 0)

    async def _change(self, own: WorkerSet, operations: list[patch.Operation]) -> None:
        raw = await self._client.patch_json(
            STATEFUL_SETS,
            own.name,
            [patch.only_at(own.resource_version), *operations],
            namespace=own.namespace,
        )
        self._stores.sets.observe(raw)

    # --- pods and claims -----------------------------------------------------------------------------------------

    async def mark(self, pod: WorkerPod) -> bool:
        """Labels the pod busy; False when it is on its way out, or another one by now."""
        body = {"metadata": {"uid": pod.uid, "labels": {vocabulary.BUSY_LABEL: "true"}}}
        raw = await self._client.patch_merge(PODS, pod.name, body, namespace=pod.namespace)
        self._stores.pods.observe(raw)
        return raw["metadata"]["uid"] == pod.uid and raw["metadata"].get("deletionTimestamp") is None

    async def unmark(self, pod: WorkerPod) -> None:
        """Takes that label off exactly the version of the pod that was looked at."""
        operations = [
            patch.only_at(pod.resource_version),
            patch.remove(patch.pointer("metadata", "labels", vocabulary.BUSY_LABEL)),
        ]
        raw = await self._client.patch_json(PODS, pod.name, operations, namespace=pod.namespace)
        self._stores.pods.observe(raw)

    async def delete_pod(self, pod: WorkerPod) -> None:
        await self._client.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)

    async def delete_claim(self, claim: WorkerClaim) -> None:
        await self._client.delete(PERSISTENT_VOLUME_CLAIMS, claim.name, namespace=claim.namespace, uid=claim.uid)
