"""Writes that come over HTTP: what the body must look like, then one step through the storage.

Every new or changed object passes `Writes.admit` between being read and being stored; this is where admission webhooks
are called. Since they take time, the object may have changed meanwhile: the write is decided again then, as the real
server's GuaranteedUpdate does.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ebbtide.sim import apply, registry
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import LEASES, Kind
from ebbtide.sim.ownership import Ownership
from ebbtide.sim.patches import decoded, patched
from ebbtide.sim.refusals import BadRequest, Conflict, Invalid, NotFound, field_problem, required
from ebbtide.sim.routes import Target
from ebbtide.sim.selectors import selected
from ebbtide.sim.storage import Change, Storage, Write
from ebbtide.sim.stored import Object, Stored

_PATCH_OPTIONS: Final = Kind("meta.k8s.io", "v1", "patchoptions", "PatchOptions", namespaced=False)
# How often a write is decided again because the object changed while it was being admitted.
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Admission:
    """One object on its way into the storage. `operation` is CREATE or UPDATE, `old` None for a new object."""

    operation: str
    target: Target
    new: Object
    old: Object | None
    dry_run: bool


Admit = Callable[[Admission], Awaitable[Object]]


async def admit_unchanged(admission: Admission) -> Object:
    """What a cluster without admission webhooks does."""
    return admission.new


class Writes:
    """POST, PUT, PATCH and DELETE of objects. All failures are Refusals."""

    def __init__(self, storage: Storage, admit: Admit = admit_unchanged) -> None:
        self._storage = storage
        self.admit = admit

    async def create(self, target: Target, text: bytes, write: Write) -> Stored:
        body = self._body(target, text)
        metadata = body.setdefault("metadata", {})
        if target.kind.namespaced:
            metadata["namespace"] = target.namespace
        body = await self.admit(Admission("CREATE", target, body, None, write.dry_run))
        return self._storage.insert(target.kind, body, write)

    async def replace(self, target: Target, text: bytes, write: Write) -> tuple[Stored, bool]:
        """The stored object, and whether it is new (only leases may be created by PUT)."""
        body = self._body(target, text)
        _check_name(target, body)
        missing = self._storage.peek(target.kind, target.name, target.namespace) is None
        if missing and target.kind is LEASES and not body["metadata"].get("resourceVersion"):
            return await self.create(target, text, write), True
        return await self._change(target, lambda _: registry.copied(body), write), False

    async def patch(self, target: Target, media_type: str, text: bytes, write: Write) -> Stored:
        def change(live: Object) -> Object:
            uid = live["metadata"]["uid"]
            body = patched(live, media_type, text)
            _check_name(target, body)
            _check_uid(target, body, uid)
            return body

        return await self._change(target, change, write)

    async def apply(self, target: Target, text: bytes, write: Write, *, force: bool) -> tuple[Stored, bool]:
        """Server-side apply; the stored object, and whether it is new. `write.manager` must have been given."""
        if not write.manager:
            problem = required("fieldManager", "is required for apply patch")
            raise Invalid.of(_PATCH_OPTIONS, "", problem)
        wanted = self._body(target, text)
        if not (wanted.get("apiVersion") and wanted.get("kind")):
            raise BadRequest(f"invalid object type: /{wanted.get('apiVersion', '')}, Kind={wanted.get('kind', '')}")
        _check_name(target, wanted)
        if "managedFields" in wanted["metadata"]:
            raise BadRequest("metadata.managedFields must be nil")
        live = self._storage.peek(target.kind, target.name, target.namespace)
        if live is None:
            return await self._apply_new(target, wanted, write, force=force), True
        _check_uid(target, wanted, live.uid)
        applied = apply.apply(live.copy(), live.ownership, wanted, self._applier(target, write), force=force)
        write = Write(write.manager, write.subresource, write.dry_run, ownership=applied.ownership)
        return await self._change(target, lambda _: applied.body, write), False

    async def delete(self, target: Target, options: Deletion) -> Stored:
        return self._storage.delete(target.kind, target.name, target.namespace, options)

    async def delete_collection(self, target: Target, query: Mapping[str, str], options: Deletion) -> list[Stored]:
        """Deletes all that the selectors of the query select."""
        test = selected(target.kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        found = self._storage.scan(target.kind, target.namespace or None)
        chosen = [stored for stored in found if test is None or test(stored)]
        return [self._storage.delete(target.kind, stored.name, stored.namespace, options) for stored in chosen]

    # --- parts -----------------------------------------------------------------------------------------------

    async def _change(self, target: Target, change: Change, write: Write) -> Stored:
        for _ in range(_ATTEMPTS):
            before = self._storage.find(target.kind, target.name, target.namespace)
            changed = change(before.copy())
            admission = Admission("UPDATE", target, changed, before.body, write.dry_run)
            admitted = await self.admit(admission)
            if self._storage.peek(target.kind, target.name, target.namespace) is before:
                return self._storage.modify(target.kind, target.name, target.namespace, _becomes(admitted), write)
        raise Conflict.of(target.kind, target.name)

    async def _apply_new(self, target: Target, wanted: Object, write: Write, *, force: bool) -> Stored:
        if write.subresource or "uid" in wanted["metadata"]:
            raise NotFound.of(target.kind, target.name)
        empty: Object = {"metadata": {"name": target.name}}
        applied = apply.apply(empty, (), wanted, self._applier(target, write), force=force)
        write = Write(write.manager, "", write.dry_run, ownership=applied.ownership)
        body = await self.admit(Admission("CREATE", target, applied.body, None, write.dry_run))
        if target.kind.namespaced:
            body["metadata"]["namespace"] = target.namespace
        return self._storage.insert(target.kind, body, write)

    def _applier(self, target: Target, write: Write) -> Ownership:
        version = target.kind.api_version
        return Ownership(write.manager, "Apply", version, self._storage.now(), frozenset(), write.subresource)

    @staticmethod
    def _body(target: Target, text: bytes) -> Object:
        body = decoded(text)
        if not isinstance(body, dict):
            raise BadRequest("couldn't get version/kind; json parse error: the body is not an object")
        kind = target.kind
        if body.get("kind", kind.kind) != kind.kind or body.get("apiVersion", kind.api_version) != kind.api_version:
            raise BadRequest(_wrong_kind(kind, body.get("apiVersion", ""), body.get("kind", "")))
        namespace = (body.get("metadata") or {}).get("namespace")
        if kind.namespaced and namespace and namespace != target.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        return body


def _wrong_kind(kind: Kind, api_version: str, name: str) -> str:
    version = api_version.rpartition("/")[2]
    conversion = f"converting ({version}.{name}) to ({kind.group.split('.')[0] or 'core'}.{kind.kind})"
    return f'{name} in version "{api_version}" cannot be handled as a {kind.kind}: {conversion}: unknown conversion'


def _becomes(body: Object) -> Change:
    return lambda _: body


def _check_uid(target: Target, body: Object, uid: str) -> None:
    meant = body["metadata"].get("uid", uid)
    if meant != uid:
        problem = field_problem("metadata.uid", f'Invalid value: "{meant}": field is immutable')
        raise Invalid.of(target.kind, target.name, problem)


def _check_name(target: Target, body: Object) -> None:
    name = (body.get("metadata") or {}).get("name")
    if not name:
        where = f"{target.name} based on URL"
        raise BadRequest(f"the name of the object ({where}) was undeterminable: name must be provided")
    if name != target.name:
        raise BadRequest(f"the name of the object ({name or ''}) does not match the name on the URL ({target.name})")
