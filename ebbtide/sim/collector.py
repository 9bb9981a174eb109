"""Garbage collector and namespace controller: what goes after its owner or its namespace has gone.

Works in the background, like the controllers of kube-controller-manager: it reacts to events, so a dependent is still
there for a moment. Follows k8s.io/kubernetes `pkg/controller/garbagecollector` and `pkg/controller/namespace`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ebbtide.sim.deletion import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Deletion
from ebbtide.sim.kinds import KINDS, NAMESPACES, kind_of
from ebbtide.sim.refusals import NotFound
from ebbtide.sim.storage import Storage, Write
from ebbtide.sim.stored import DELETED, Event, Object, Stored

_WRITE: Final = Write(manager="kube-controller-manager")
_FINALIZE: Final = Write(manager="kube-controller-manager", subresource="finalize")
Owners = list[Mapping[str, Any]]


class Collector:
    """Runs as long as it is not closed."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._dependents: dict[str, dict[str, Stored]] = {}
        self._subscription = storage.subscribe(self._react)

    def close(self) -> None:
        self._subscription.close()

    def _react(self, event: Event) -> None:
        self._index(event)
        stored = event.stored
        if event.type == DELETED:
            self._gone(stored)
            return
        if _owners(stored) and not stored.deleting:
            self._collect(stored)
        if stored.deleting:
            self._help(stored)

    # --- owners ----------------------------------------------------------------------------------------------

    def _index(self, event: Event) -> None:
        if event.before is not None:
            for owner in _owners(event.before):
                self._dependents.get(owner["uid"], {}).pop(event.stored.uid, None)
        if event.type != DELETED:
            for owner in _owners(event.stored):
                self._dependents.setdefault(owner["uid"], {})[event.stored.uid] = event.stored

    def _gone(self, stored: Stored) -> None:
        for dependent in list(self._dependents.pop(stored.uid, {}).values()):
            self._collect(dependent)
        for owner in _owners(stored):
            live = self._owner(stored, owner)
            if live is not None and live.deleting:
                self._help(live)
        if stored.namespace:
            namespace = self._storage.peek(NAMESPACES, stored.namespace)
            if namespace is not None and namespace.deleting:
                self._empty(namespace)

    def _collect(self, dependent: Stored) -> None:
        """Deletes the object when none of its owners is there any more; forgets those that are not."""
        live = self._live(dependent)
        if live is None or live.deleting:
            return
        owners = _owners(live)
        left = [owner for owner in owners if self._owner(live, owner) is not None]
        if owners and not left:
            self._delete(live)
        elif len(left) < len(owners):
            self._rewrite(live, ownerReferences=left)

    def _owner(self, dependent: Stored, owner: Mapping[str, Any]) -> Stored | None:
        kind = kind_of(owner["apiVersion"], owner["kind"])
        if kind is None:
            return dependent
        stored = self._storage.peek(kind, owner["name"], dependent.namespace if kind.namespaced else "")
        return stored if stored is not None and stored.uid == owner["uid"] else None

    # --- objects that wait for their deletion ------------------------------------------------------------------

    def _help(self, stored: Stored) -> None:
        live = self._live(stored)
        if live is None:
            return
        if live.kind is NAMESPACES:
            self._empty(live)
            return
        finalizers = live.body["metadata"].get("finalizers", [])
        if ORPHAN_FINALIZER in finalizers:
            for dependent in list(self._dependents.get(live.uid, {}).values()):
                self._orphan(dependent, live.uid)
            self._finish(live, ORPHAN_FINALIZER)
        elif FOREGROUND_FINALIZER in finalizers and not self._blocked(live):
            self._finish(live, FOREGROUND_FINALIZER)

    def _blocked(self, owner: Stored) -> bool:
        """Deletes the dependents; whether some that block the owner's deletion are still there."""
        blocking = False
        for dependent in list(self._dependents.get(owner.uid, {}).values()):
            live = self._live(dependent)
            if live is None:
                continue
            blocking = blocking or any(
                reference["uid"] == owner.uid and reference.get("blockOwnerDeletion") for reference in _owners(live)
            )
            if not live.deleting:
                self._delete(live, "Foreground")
        return blocking

    def _orphan(self, dependent: Stored, uid: str) -> None:
        live = self._live(dependent)
        if live is not None:
            self._rewrite(live, ownerReferences=[owner for owner in _owners(live) if owner["uid"] != uid])

    def _finish(self, stored: Stored, finalizer: str) -> None:
        finalizers = [name for name in stored.body["metadata"]["finalizers"] if name != finalizer]
        self._rewrite(stored, finalizers=finalizers)

    # --- namespaces --------------------------------------------------------------------------------------------

    def _empty(self, namespace: Stored) -> None:
        left = list(self._content(namespace.name))
        for stored in left:
            if not stored.deleting:
                self._delete(stored)
        if not any(True for _ in self._content(namespace.name)):
            self._storage.modify(NAMESPACES, namespace.name, "", _without_finalizers, _FINALIZE)

    def _content(self, namespace: str) -> Iterator[Stored]:
        for kind in KINDS:
            if kind.namespaced:
                yield from self._storage.scan(kind, namespace)

    # --- writes ------------------------------------------------------------------------------------------------

    def _live(self, stored: Stored) -> Stored | None:
        live = self._storage.peek(stored.kind, stored.name, stored.namespace)
        return live if live is not None and live.uid == stored.uid else None

    def _delete(self, stored: Stored, propagation: str = "Background") -> None:
        try:
            options = Deletion(uid=stored.uid, propagation=propagation)
            self._storage.delete(stored.kind, stored.name, stored.namespace, options)
        except NotFound:
            return

    def _rewrite(self, stored: Stored, **metadata: Any) -> None:
        def change(body: Object) -> Object:
            body["metadata"] |= metadata
            return body

        self._storage.modify(stored.kind, stored.name, stored.namespace, change, _WRITE)


def _owners(stored: Stored) -> Owners:
    owners: Owners = stored.body["metadata"].get("ownerReferences", [])
    return owners


def _without_finalizers(body: Object) -> Object:
    body["spec"].pop("finalizers", None)
    return body
