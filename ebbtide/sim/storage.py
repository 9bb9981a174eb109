"""What etcd and the registries do: versions, preconditions, deletion, and the history that watches read.

Everything here happens at once, without awaiting, so that every write is atomic. Actors use it directly:

    node = storage.get(NODES, "a")                       # a copy of one's own; raises refusals.NotFound
    pods = storage.list(PODS, "default")                 # copies; namespace None is all of them
    storage.create(PODS, body)                           # namespace from the body; returns the stored copy
    storage.update(PODS, body)                           # checks metadata.resourceVersion (and uid) where given
    storage.update_status(PODS, body)
    storage.bind("default", "pod", "node")
    storage.delete(PODS, "pod", "default", Deletion(grace_seconds=0))
    storage.subscribe(handler, PODS, NODES)              # first what there is as ADDED, then every Event, in order

For reading only, `peek` and `scan` give the shared `Stored` without copying. All failures are `refusals.Refusal`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Final
from uuid import UUID

from ebbtide.clock import Clock
from ebbtide.model import format_time
from ebbtide.sim import deletion, registry, validation
from ebbtide.sim.deletion import DEFAULTS, Deletion
from ebbtide.sim.history import History
from ebbtide.sim.kinds import NAMESPACES, PODS, Kind
from ebbtide.sim.listeners import Handler, Listener, Subscription
from ebbtide.sim.ownership import Ownership, after_write
from ebbtide.sim.refusals import AlreadyExists, BlindUpdate, Conflict, Forbidden, NotFound, PlainFault
from ebbtide.sim.stored import ADDED, DELETED, MODIFIED, Event, Key, Object, Stored

Change = Callable[[Object], Object]

# As k8s.io/apimachinery `pkg/util/rand`: no vowels, so that no words come out.
NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class Write:
    """How a write is made: by which field manager, on which subresource, for show only, or as an apply.

    `applied` is the set of leaves of a server-side apply, which are its manager's alone from then on.
    """

    manager: str = "embedded"
    subresource: str = ""
    dry_run: bool = False
    keep_status: bool = False
    ownership: tuple[Ownership, ...] | None = None


IN_PROCESS: Final = Write()
STATUS: Final = Write(subresource="status")


class Storage:
    """All objects of one cluster. `seed` decides every UID and generated name."""

    def __init__(self, clock: Clock, *, seed: int = 0, window: int = 10_000) -> None:
        self.clock = clock
        self.history = History(window)
        self._random = Random(seed)  # noqa: S311 - reproducible on purpose
        self._objects: dict[Kind, dict[Key, Stored]] = {}
        self._subscriptions: list[Subscription] = []
        self._listeners: list[Listener] = []

    @property
    def version(self) -> int:
        """The resourceVersion of the latest write."""
        return self.history.latest

    @property
    def listeners(self) -> int:
        """How many listen: one per running watch."""
        return len(self._listeners)

    def now(self) -> str:
        """The time as objects carry it: RFC 3339, whole seconds."""
        return format_time(int(self.clock.now()))

    # --- reading ---------------------------------------------------------------------------------------------

    def peek(self, kind: Kind, name: str, namespace: str = "") -> Stored | None:
        """The live version, for reading only."""
        return self._objects.get(kind, {}).get((namespace, name))

    def scan(self, kind: Kind, namespace: str | None = None) -> Iterator[Stored]:
        """All live versions by namespace and name, for reading only."""
        found = self._objects.get(kind, {})
        return iter([found[key] for key in sorted(found) if namespace is None or key[0] == namespace])

    def scan_at(self, kind: Kind, version: int, namespace: str | None = None) -> "list[Stored]":
        """As `scan`, but as it was at that version; raises history.Compacted."""
        found = self.history.rewound(kind, self._objects.get(kind, {}), version)
        return [found[key] for key in sorted(found) if namespace is None or key[0] == namespace]

    def find(self, kind: Kind, name: str, namespace: str = "") -> Stored:
        """As `peek`, raises NotFound."""
        stored = self.peek(kind, name, namespace)
        if stored is None:
            raise NotFound.of(kind, name)
        return stored

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return self.find(kind, name, namespace).copy()

    def list(self, kind: Kind, namespace: str | None = None) -> "list[Object]":
        return [stored.copy() for stored in self.scan(kind, namespace)]

    def subscribe(self, handler: Handler, *kinds: Kind, replay: bool = True) -> Subscription:
        """Calls the handler with every later event of these kinds (none: all), first with ADDED for what is there.

        The handler runs on the event loop, after the write has returned, and may write itself.
        """
        subscription = Subscription(handler, kinds, self._subscriptions).open()
        if replay:
            for stored in chain.from_iterable(self.scan(kind) for kind in kinds or tuple(self._objects)):
                subscription.offer(Event(ADDED, stored, None))
        return subscription

    def listen(self, callback: Handler, kind: Kind) -> Listener:
        """Calls back at once, inside of the write; the callback must neither write nor raise."""
        return Listener(callback, kind, self._listeners).open()

    # --- writing ---------------------------------------------------------------------------------------------

    def create(self, kind: Kind, body: Object, write: Write = IN_PROCESS) -> Object:
        """Raises AlreadyExists, Invalid, NotFound (no such namespace), NamespaceTerminating's Forbidden."""
        return self.insert(kind, body, write).copy()

    def update(self, kind: Kind, body: Object, write: Write = IN_PROCESS) -> Object:
        """Replaces the object of that name; raises NotFound, Conflict, Invalid."""
        metadata = body["metadata"]
        return self.modify(
            kind, metadata["name"], metadata.get("namespace", ""), lambda _: registry.copied(body), write
        ).copy()

    def update_status(self, kind: Kind, body: Object, write: Write = STATUS) -> Object:
        """Replaces `status` only."""
        return self.update(kind, body, write)

    def insert(self, kind: Kind, body: Object, write: Write) -> Stored:
        """As `create`, but returns the stored version."""
        body = registry.copied(body)
        metadata = body.setdefault("metadata", {})
        if metadata.get("resourceVersion"):
            raise PlainFault("resourceVersion should not be set on objects to be created")
        self._admit_to_namespace(kind, metadata)
        self._name(metadata)
        body = registry.prepare_create(kind, body, keep_status=write.keep_status)
        validation.check_new(kind, body)
        metadata = body["metadata"]
        if self.peek(kind, metadata["name"], metadata.get("namespace", "")):
            raise AlreadyExists.of(kind, metadata["name"])
        metadata |= {"uid": self._new_uid(), "creationTimestamp": self.now()}
        ownership = self._owned_after(kind, None, body, write)
        return self._commit(ADDED, kind, body, ownership, None, dry_run=write.dry_run)

    def modify(self, kind: Kind, name: str, namespace: str, change: Change, write: Write) -> Stored:
        """Reads, changes, checks and writes in one step; no new version when nothing changes."""
        before = self.find(kind, name, namespace)
        body = change(before.copy())
        self._check_identity(before, body, write)
        body = registry.prepare_update(before, body, write.subresource)
        validation.check_changed(before, body, write.subresource)
        ownership = self._owned_after(kind, before, body, write)
        if body == before.body and (write.ownership is None or ownership == before.ownership):
            return before
        if write.subresource != "binding":
            registry.count_generation(before, body)
        if deletion.complete(body):
            return self._remove(before, body, dry_run=write.dry_run)
        return self._commit(MODIFIED, kind, body, ownership, before, dry_run=write.dry_run)

    def delete(self, kind: Kind, name: str, namespace: str = "", options: Deletion = DEFAULTS) -> Stored:
        """Deletes at once, or marks: a grace period (pods on a node), finalizers, foreground propagation.

        Returns the last or the marked version. Raises NotFound, Conflict (preconditions).
        """
        before = self.find(kind, name, namespace)
        deletion.check_preconditions(before, options)
        body = deletion.marked(before, options, self.clock.now())
        if body is None:
            return before
        if deletion.complete(body):
            return self._remove(before, body if kind is PODS else before.copy(), dry_run=options.dry_run)
        registry.count_generation(before, body)
        return self._commit(MODIFIED, kind, body, before.ownership, before, dry_run=options.dry_run)

    def bind(self, namespace: str, name: str, node: str, uid: str = "") -> Stored:
        """Puts a pod on a node, as `pods/binding` does. Raises NotFound, Conflict."""

        def change(pod: Object) -> Object:
            if uid and pod["metadata"]["uid"] != uid:
                raise Conflict.of(PODS, name, f"Precondition failed: UID in precondition: {uid}")
            registry.assign(pod, node, self.now())
            return pod

        return self.modify(PODS, name, namespace, change, Write("kube-scheduler", "binding"))

    def compact(self) -> None:
        """Forgets the history: a watch or an exact list from any earlier version is answered 410."""
        self.history.compact()

    # --- one write -------------------------------------------------------------------------------------------

    def _admit_to_namespace(self, kind: Kind, metadata: Object) -> None:
        if not kind.namespaced:
            metadata.pop("namespace", None)
            return
        namespace = metadata.setdefault("namespace", "default")
        self.require_namespace(kind, metadata.get("name", ""), namespace)

    def require_namespace(self, kind: Kind, name: str, namespace: str) -> None:
        """Raises NotFound for a namespace that does not exist, Forbidden for one that is going."""
        stored = self.peek(NAMESPACES, namespace)
        if stored is None:
            raise NotFound.of(NAMESPACES, namespace)
        if stored.deleting:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise Forbidden(f'{kind.qualified} "{name}" is forbidden: {text}', kind=kind, name=name, causes=(cause,))

    def _name(self, metadata: Object) -> None:
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(self._random.choices(NAME_LETTERS, k=5))
            metadata["name"] = metadata["generateName"] + suffix

    def _new_uid(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    @staticmethod
    def _check_identity(before: Stored, body: Object, write: Write) -> None:
        metadata = body["metadata"]
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        if uid and uid != before.uid:
            raise Conflict.of(before.kind, before.name, registry.other_uid(before, uid))
        if version and version != str(before.version):
            raise Conflict.of(before.kind, before.name)
        if not version and not before.kind.updates_blindly and not write.ownership:
            raise BlindUpdate(before.kind, before.name)

    def _owned_after(self, kind: Kind, before: Stored | None, body: Object, write: Write) -> tuple[Ownership, ...]:
        if write.ownership is not None:
            return write.ownership
        written = Ownership(write.manager, "Update", kind.api_version, self.now(), frozenset(), write.subresource)
        held = before.ownership if before else ()
        return after_write(held, before.body if before else None, body, written)

    def _commit(
        self,
        type_: str,
        kind: Kind,
        body: Object,
        ownership: tuple[Ownership, ...],
        before: Stored | None,
        *,
        dry_run: bool,
    ) -> Stored:
        if dry_run:
            return Stored(kind, body, ownership)
        body["metadata"]["resourceVersion"] = str(self.history.latest + 1)
        stored = Stored(kind, body, ownership)
        objects = self._objects.setdefault(kind, {})
        if type_ == DELETED:
            del objects[stored.key]
        else:
            objects[stored.key] = stored
        event = Event(type_, stored, before)
        self.history.append(event)
        for listener in self._listeners:
            listener.offer(event)
        for subscription in self._subscriptions:
            subscription.offer(event)
        return stored

    def _remove(self, before: Stored, shown: Object, *, dry_run: bool) -> Stored:
        """Takes the object away; the event carries it as it was stored last, the writer is shown what it wanted."""
        self._commit(DELETED, before.kind, before.copy(), before.ownership, before, dry_run=dry_run)
        return Stored(before.kind, shown, before.ownership)
