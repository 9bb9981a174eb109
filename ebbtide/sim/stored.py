"""One version of one object, never changed once it is stored.

`body` is shared by everybody who only reads; whoever wants to change something takes a `copy`. The JSON text is made
when it is first asked for and kept, since one version is usually sent to several watchers.
"""

from dataclasses import dataclass
from typing import Any, Final

import orjson

from ebbtide.sim.kinds import Kind
from ebbtide.sim.ownership import Ownership, managed_fields

Object = dict[str, Any]
Key = tuple[str, str]

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"


class Stored:
    """A version of an object. `body` must not be changed; `managedFields` are in `ownership`."""

    __slots__ = ("_data", "body", "kind", "name", "namespace", "ownership", "uid", "version")

    def __init__(self, kind: Kind, body: Object, ownership: tuple[Ownership, ...] = ()) -> None:
        metadata = body["metadata"]
        self.kind = kind
        self.body: Object = {**kind.type_meta, **body}
        self.ownership = ownership
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata.get("uid", "")
        self.version = int(metadata.get("resourceVersion") or 0)
        self._data: bytes | None = None

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def deleting(self) -> bool:
        return "deletionTimestamp" in self.body["metadata"]

    def copy(self) -> Object:
        """A body of one's own, without `metadata.managedFields`."""
        copied: Object = orjson.loads(orjson.dumps(self.body))
        return copied

    def at_version(self, version: int) -> "Stored":
        """The same content with another resourceVersion."""
        metadata = {**self.body["metadata"], "resourceVersion": str(version)}
        return Stored(self.kind, {**self.body, "metadata": metadata}, self.ownership)

    @property
    def data(self) -> bytes:
        """The whole object as JSON."""
        if self._data is None:
            self._data = orjson.dumps(self._shown())
        return self._data

    @property
    def item(self) -> bytes:
        """The object as an item of a list: without `apiVersion` and `kind`, as the real server sends it."""
        return b"{" + self.data[len(self.kind.json_prefix) :]

    def _shown(self) -> Object:
        if not self.ownership:
            return self.body
        metadata = {**self.body["metadata"], "managedFields": managed_fields(self.ownership)}
        return {**self.body, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class Event:
    """A change of one object. Of a DELETED one `stored` is its last state, with the version of the deletion."""

    type: str
    stored: Stored
    before: Stored | None

    @property
    def kind(self) -> Kind:
        return self.stored.kind

    @property
    def version(self) -> int:
        return self.stored.version

    @property
    def object(self) -> Object:
        """A copy of the object after the change."""
        return self.stored.copy()
