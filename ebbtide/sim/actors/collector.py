"""What goes when something else has gone: dependents without an owner, and all that is in a deleted namespace.

As the garbage collector and the namespace controller: `Background` removes dependents after their owner, `Foreground`
keeps the owner until the dependents that block it have gone, `Orphan` lets them stay without it.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, Never

from ebbtide.sim.actors.reaction import react
from ebbtide.sim.deletion import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Deletion
from ebbtide.sim.kinds import KINDS, NAMESPACES
from ebbtide.sim.storage import Change, Storage, Write
from ebbtide.sim.stored import Object, Stored

Raw = Mapping[str, Any]

_WRITES: Final = Write("kube-controller-manager")
_FINALIZE: Final = Write("kube-controller-manager", "finalize")


def is_orphan(thing: Raw, living: Callable[[str], bool]) -> bool:
    """Whether the object has owners and none of them lives."""
    references = thing["metadata"].get("ownerReferences") or ()
    return bool(references) and not any(living(reference["uid"]) for reference in references)


def without_owner(thing: Object, uid: str) -> Object:
    """The object without its reference to that owner."""
    metadata = thing["metadata"]
    references = [each for each in metadata.get("ownerReferences") or () if each["uid"] != uid]
    rest = {key: value for key, value in metadata.items() if key != "ownerReferences"}
    return {**thing, "metadata": {**rest, "ownerReferences": references} if references else rest}


def without_finalizer(thing: Object, finalizer: str) -> Object:
    metadata = thing["metadata"]
    kept = [each for each in metadata.get("finalizers") or () if each != finalizer]
    rest = {key: value for key, value in metadata.items() if key != "finalizers"}
    return {**thing, "metadata": {**rest, "finalizers": kept} if kept else rest}


class Collector:
    """Looks at everything whenever anything has changed."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def run(self) -> Never:
        await react(self._storage, self.step)

    def step(self) -> None:
        things = list(chain.from_iterable(self._storage.scan(kind) for kind in KINDS))
        owners = {thing.uid for thing in things}
        dependents = _by_owner(things)
        for thing in things:
            if is_orphan(thing.body, owners.__contains__):
                self._delete(thing)
            elif thing.deleting:
                self._let_go(thing, dependents.get(thing.uid, []))
        self._empty_namespaces(things)

    def _let_go(self, owner: Stored, dependents: list[Stored]) -> None:
        finalizers = owner.body["metadata"].get("finalizers") or ()
        if ORPHAN_FINALIZER in finalizers:
            for dependent in dependents:
                self._modify(dependent, lambda body: without_owner(body, owner.uid))
            self._modify(owner, lambda body: without_finalizer(body, ORPHAN_FINALIZER))
        elif FOREGROUND_FINALIZER in finalizers:
            blocking = [each for each in dependents if _blocks(each.body, owner.uid)]
            for dependent in dependents:
                self._delete(dependent, "Foreground")
            if not blocking:
                self._modify(owner, lambda body: without_finalizer(body, FOREGROUND_FINALIZER))

    def _empty_namespaces(self, things: Iterable[Stored]) -> None:
        going = {thing.name: thing for thing in things if thing.kind is NAMESPACES and thing.deleting}
        if not going:
            return
        inside = [thing for thing in things if thing.namespace in going]
        for thing in inside:
            self._delete(thing)
        for name in going.keys() - {thing.namespace for thing in inside}:
            self._storage.modify(NAMESPACES, name, "", _finalized, _FINALIZE)

    def _delete(self, thing: Stored, propagation: str = "Background") -> None:
        live = self._storage.peek(thing.kind, thing.name, thing.namespace)
        if live is not None and live.uid == thing.uid and not live.deleting:
            options = Deletion(uid=thing.uid, propagation=propagation)
            self._storage.delete(thing.kind, thing.name, thing.namespace, options)

    def _modify(self, thing: Stored, change: Change) -> None:
        self._storage.modify(thing.kind, thing.name, thing.namespace, change, _WRITES)


def _by_owner(things: Iterable[Stored]) -> dict[str, list[Stored]]:
    found: dict[str, list[Stored]] = {}
    for thing in things:
        for reference in thing.body["metadata"].get("ownerReferences") or ():
            found.setdefault(reference["uid"], []).append(thing)
    return found


def _blocks(dependent: Raw, owner: str) -> bool:
    references = dependent["metadata"].get("ownerReferences") or ()
    return any(each["uid"] == owner and each.get("blockOwnerDeletion") for each in references)


def _finalized(namespace: Object) -> Object:
    return {**namespace, "spec": {**namespace.get("spec", {}), "finalizers": []}}
