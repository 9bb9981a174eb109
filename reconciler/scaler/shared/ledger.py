"""The pool's promises as they are stored on the cluster, and the lock between promising and shrinking.

One ConfigMap for the pool, whatever the number of tasks: a write that stores a hundred promises costs what one costs,
and no StatefulSet (whose every write passes admission) is written for a task. Its keys:

    0, 1, …    per ordinal one line of JSON for each task that was sent there and is not known to have ended
    closing    ordinals from this one on are about to be removed
    clusters   every cluster that tasks came from lately: workers list tasks only of a cluster that is named
    holder     the last process that took the ledger over; writing it makes whatever its predecessor still has under
               way fail

Every write is for the version that was last read or written. It has no owner: who deletes the StatefulSet by hand must
not delete with it what clients were told.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson
import structlog

from ebbtide import vocabulary
from ebbtide.errors import EbbtideError
from ebbtide.kube import patch
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Conflict, KubeError, NotFound
from ebbtide.kube.resources import CONFIG_MAPS
from reconciler.scaler.task import TaskId

log = structlog.stdlib.get_logger(__name__)

# An object may have 1 MiB (ConfigMap validation, MaxSecretSize), and needs room for its metadata.
LARGEST: Final = 900 << 10
_CLOSING: Final = "closing"
_CLUSTERS: Final = "clusters"
_HOLDER: Final = "holder"


class LedgerFullError(EbbtideError):
    """There is no room for further promises."""


class Entry(NamedTuple):
    """A promise: `size` in bytes, `dated` in epoch seconds."""

    task: TaskId
    cluster: int
    size: int
    dated: int


@dataclass(frozen=True, slots=True)
class Record:
    """What the ledger says."""

    entries: Mapping[int, Sequence[Entry]] = field(default_factory=dict)
    closing: int | None = None
    clusters: frozenset[int] = frozenset()


def name_of(pool: str) -> str:
    return f"{pool}{vocabulary.LEDGER_SUFFIX}"


def read(data: Mapping[str, Any]) -> Record:
    """Reads `data` of the ConfigMap. What makes no sense is left out, and said."""
    entries = {int(key): _entries(key, str(lines)) for key, lines in data.items() if _is_number(key)}
    closing = str(data.get(_CLOSING) or "")
    clusters = str(data.get(_CLUSTERS) or "").split(",")
    return Record(
        entries={ordinal: found for ordinal, found in entries.items() if found},
        closing=int(closing) if _is_number(closing) else None,
        clusters=frozenset(int(cluster) for cluster in clusters if _is_number(cluster)),
    )


def write(entries: Iterable[Entry]) -> str:
    """The lines of one ordinal; "" for none."""
    return "\n".join(orjson.dumps([str(e.task), e.cluster, e.size, e.dated]).decode() for e in entries)


def _entries(ordinal: str, lines: str) -> list[Entry]:
    found = []
    for line in lines.splitlines():
        try:
            task, cluster, size, dated = orjson.loads(line)
            found.append(Entry(TaskId.parse(task), int(cluster), int(size), int(dated)))
        except (ValueError, TypeError) as error:
            log.warning("a promise cannot be read", ordinal=ordinal, line=line[:200], error=str(error))
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20


class Ledger:
    """The ConfigMap of one pool. Writes are one at a time; `identity` tells processes and terms apart."""

    def __init__(self, client: Client, namespace: str, pool: str, identity: str) -> None:
        self._client = client
        self._namespace = namespace
        self._pool = pool
        self._identity = identity
        self._data: dict[str, str] = {}
        self._version = 0
        self._certain = False
        self._one = asyncio.Lock()

    @property
    def certain(self) -> bool:
        """Whether what is stored is known: nothing was written with an unknown outcome, or by others."""
        return self._certain

    def doubt(self) -> None:
        """A new term: others may have written."""
        self._certain = False

    async def take_over(self, term: str) -> Record:
        """Reads it, and makes sure that no write of an earlier holder arrives any more. Raises KubeError."""
        async with self._one:
            await self._read()
            if self._version:
                await self._write({**self._data, _HOLDER: f"{self._identity} {term}"})
            return read(self._data)

    async def look(self) -> Record:
        """Only reads it. Raises KubeError."""
        async with self._one:
            await self._read()
            return read(self._data)

    async def save(self, entries: Mapping[int, str], clusters: Iterable[int] = ()) -> None:
        """Stores the lines of these ordinals, and that tasks come from these clusters and no others.

        Raises LedgerFullError; KubeError, after which it is to be read anew.
        """
        async with self._one:
            changes = {str(ordinal): lines for ordinal, lines in entries.items()}
            await self._write(_with(self._data, changes | {_CLUSTERS: ",".join(map(str, sorted(clusters)))}))

    async def close(self, ordinal: int | None, entries: Mapping[int, str]) -> None:
        """Ordinals from this one on are about to be removed; None: none is. Stores lines, too. Raises as `save`."""
        async with self._one:
            changes = {str(ordinal): lines for ordinal, lines in entries.items()}
            await self._write(_with(self._data, changes | {_CLOSING: "" if ordinal is None else str(ordinal)}))

    async def _read(self) -> None:
        try:
            found = await self._client.get(CONFIG_MAPS, name_of(self._pool), namespace=self._namespace)
        except NotFound:
            found = {}
        self._take(found)

    async def _write(self, wanted: dict[str, str]) -> None:
        if not self._certain:
            raise Conflict(f"ledger of {self._pool}", 409, message="it has to be read anew")
        if wanted == self._data:
            return
        if sum(len(key) + len(value) for key, value in wanted.items()) > LARGEST:
            raise LedgerFullError(f"the promises of {self._pool} take more than {LARGEST} bytes")
        try:
            self._take(await (self._change(wanted) if self._version else self._create(wanted)))
        except KubeError:
            self._certain = False
            raise

    async def _create(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        labels = {vocabulary.POOL_LABEL: vocabulary.POOL_SHARED}
        body = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": {"name": name_of(self._pool), "namespace": self._namespace, "labels": labels},
            "data": wanted,
        }
        return await self._client.create(CONFIG_MAPS, body, namespace=self._namespace)

    async def _change(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        operations = [patch.only_at(self._version)]
        if not self._data:
            operations.append(patch.add("/data", {}))
        gone = self._data.keys() - wanted.keys()
        others = {key: value for key, value in wanted.items() if self._data.get(key) != value}
        operations += [patch.remove(patch.pointer("data", key)) for key in gone]
        operations += [patch.add(patch.pointer("data", key), value) for key, value in others.items()]
        return await self._client.patch_json(CONFIG_MAPS, name_of(self._pool), operations, namespace=self._namespace)

    def _take(self, raw: Mapping[str, Any]) -> None:
        self._data = {key: str(value) for key, value in (raw.get("data") or {}).items()}
        self._version = int(raw["metadata"]["resourceVersion"]) if raw else 0
        self._certain = True


def _with(data: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """With these keys changed; "" takes one away."""
    return {key: value for key, value in {**data, **changes}.items() if value}
