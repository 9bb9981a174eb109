"""Reads and writes of dedicated workers' objects, each write only for the very object that was decided on."""

from collections.abc import Mapping
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.errors import EbbtideError
from ebbtide.exclusion.fields import mapping, sequence
from ebbtide.kube.client import Client
from ebbtide.kube.errors import AlreadyExists, NotFound
from ebbtide.kube.patch import Operation, add, pointer, remove, test
from ebbtide.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, STATEFUL_SETS, Resource
from ebbtide.model import format_time
from reconciler.scaler.dedicated.objects import service
from reconciler.scaler.dedicated.snapshot import Worker
from reconciler.scaler.pods import WorkerClaim, WorkerPod, WorkerSet, worker_pod, worker_set
from reconciler.scaler.stores import Stores
from reconciler.scaler.template import Template, UnusableTemplateError, read_template

Raw = Mapping[str, Any]

_SEEN: Final = pointer("metadata", "annotations", vocabulary.TASK_SEEN_ANNOTATION)
_BUSY: Final = pointer("metadata", "labels", vocabulary.BUSY_LABEL)


class NameTakenError(EbbtideError):
    """Somebody else's object has the name that one of ours would have; the message names it."""


class Act:
    """`template` names the set that workers are copied from, `component` what all of them are called.

    The answers to marks go into `stores` ahead of their events, so that nothing is decided by a mark that has gone.
    """

    def __init__(self, client: Client, stores: Stores, template: str, component: str, port: int) -> None:
        self._client = client
        self._stores = stores
        self._namespace = stores.namespace
        self._template = template
        self._component = component
        self._port = port

    # --- reading -------------------------------------------------------------------------------------------------

    async def template(self) -> Template:
        """As it is now. Raises UnusableTemplateError, also for one that is not there."""
        try:
            raw = await self._client.get(STATEFUL_SETS, self._template, namespace=self._namespace)
        except NotFound:
            raise UnusableTemplateError(f"there is no template {self._namespace}/{self._template}") from None
        return read_template(raw)

    async def set_now(self, name: str) -> WorkerSet | None:
        """What the API has under that name, whatever our copy says."""
        try:
            return worker_set(await self._client.get(STATEFUL_SETS, name, namespace=self._namespace))
        except NotFound:
            return None

    async def pod_now(self, owner: WorkerSet) -> WorkerPod | None:
        """The set's pod as the API has it."""
        try:
            found = worker_pod(await self._client.get(PODS, f"{owner.name}-0", namespace=self._namespace))
        except NotFound:
            return None
        return found if found.set_uid == owner.uid else None

    async def services_now(self) -> frozenset[str]:
        """UIDs of the sets that have their Service."""
        selector = f"{vocabulary.POOL_LABEL}={vocabulary.POOL_DEDICATED}"
        listed, _ = await self._client.list_all(SERVICES, namespace=self._namespace, label_selector=selector)
        return frozenset(uid for raw in listed for uid in _owners(raw))

    # --- making --------------------------------------------------------------------------------------------------

    async def create(self, body: Raw) -> WorkerSet:
        """Raises AlreadyExists."""
        return worker_set(await self._client.create(STATEFUL_SETS, body, namespace=self._namespace))

    async def ensure_service(self, owner: WorkerSet) -> bool:
        """Whether the set has its Service; False while one of an earlier set goes. Raises NameTakenError."""
        try:
            body = service(owner, self._component, self._port)
            await self._client.create(SERVICES, body, namespace=owner.namespace)
        except AlreadyExists:
            return await self._is_there(owner)
        return True

    async def _is_there(self, owner: WorkerSet) -> bool:
        try:
            raw = await self._client.get(SERVICES, owner.service, namespace=owner.namespace)
        except NotFound:
            return False
        if owner.uid in _owners(raw):
            return not mapping(raw, "metadata").get("deletionTimestamp")
        if mapping(raw, "metadata", "labels").get(vocabulary.POOL_LABEL) == vocabulary.POOL_DEDICATED:
            return False
        raise NameTakenError(f"Service {owner.namespace}/{owner.service} is somebody else's")

    # --- marking -------------------------------------------------------------------------------------------------

    async def mark_seen(self, worker: Worker, since: float | None) -> None:
        """Says on the set since when (epoch seconds) its task is known to run, or with None that it has ended."""
        change = remove(_SEEN) if since is None else add(_SEEN, format_time(since))
        self._stores.sets.observe(await self._patched(STATEFUL_SETS, worker.set, change))

    async def mark_busy(self, pod: WorkerPod, *, busy: bool) -> None:
        """Puts the pod under the disruption budget, or takes it out."""
        change = add(_BUSY, "true") if busy else remove(_BUSY)
        self._stores.pods.observe(await self._patched(PODS, pod, change))

    async def _patched(self, resource: Resource, at: WorkerSet | WorkerPod, change: Operation) -> Raw:
        only_this = test("/metadata/uid", at.uid)
        return await self._client.patch_json(resource, at.name, [only_this, change], namespace=at.namespace)

    # --- removing ------------------------------------------------------------------------------------------------

    async def delete(self, owner: WorkerSet) -> None:
        """The set as it was read; its pod, Service and claims go after it. Raises NotFound, PreconditionFailed."""
        await self._client.delete(
            STATEFUL_SETS, owner.name, namespace=owner.namespace, uid=owner.uid, resource_version=owner.resource_version
        )

    async def delete_claim(self, claim: WorkerClaim) -> bool:
        """Whether it was there."""
        try:
            await self._client.delete(PERSISTENT_VOLUME_CLAIMS, claim.name, namespace=claim.namespace, uid=claim.uid)
        except NotFound:
            return False
        return True


def _owners(raw: Raw) -> tuple[str, ...]:
    return tuple(str(owner.get("uid")) for owner in sequence(mapping(raw, "metadata"), "ownerReferences"))
