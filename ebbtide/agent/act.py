"""Puts notices on the own node, each once, however long the API server stays away.

A notice waits here until it is stored. Every attempt reads the node anew and sends one patch, valid for that version of
the node. Whether that will be allowed is found out at the start already, by the very same patch as a dry run: roles and
admission policies answer to it as they would to the real one.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from ebbtide.agent.report import Report, Stored, event
from ebbtide.errors import ClusterAccessError
from ebbtide.kube.answers import failure
from ebbtide.kube.backoff import Backoff
from ebbtide.kube.errors import ApiError, Conflict, Forbidden, Invalid, KubeError, Unauthorized
from ebbtide.kube.patch import Operation, only_at
from ebbtide.kube.resources import EVENTS, NODES
from ebbtide.kube.slim import Cluster
from ebbtide.model import CellLabels, NodeFacts, node_facts
from ebbtide.notices import Kind, Notice, patch_for
from ebbtide.vocabulary import FIELD_MANAGER_AGENT

log = structlog.stdlib.get_logger(__name__)

_JSON_PATCH: Final = "application/json-patch+json"
# Heartbeats and other programs write the node, too; more than one of them in a row within milliseconds is rare.
_ATTEMPTS: Final = 4
# Thousands of agents wait for an API server that comes back; half a minute of delay is what an interruption can bear.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 15.0
_LONGEST_ASKED: Final = 60.0
# A Node object can be made anew while its instance, and the notice, go on: then it says nothing of it any more.
_LOOK_AGAIN: Final = 600.0
# Where events about nodes are kept.
_EVENTS_NAMESPACE: Final = "default"
# Ten digits that stand for any time.
_ANY_TIME: Final = 1_700_000_000.0


class OwnNode:
    """The node that this process runs on, as the API server has it. Raises KubeError."""

    def __init__(self, cluster: Cluster, name: str, signal_key: str) -> None:
        self.name = name
        self._cluster = cluster
        self._signal_key = signal_key
        self._path = NODES.path(name=name)

    async def store(self, notice: Notice) -> tuple[Stored, NodeFacts]:
        """Tells of the notice unless the node says so already."""
        for remaining in reversed(range(_ATTEMPTS)):
            node = await self._read()
            patch = patch_for(node, notice, self._signal_key)
            if not patch:
                return Stored.KNOWN, node
            try:
                await self._patch(patch)
            except (Conflict, Invalid) as error:
                # Somebody else has written, or the server will not have it at all: the second reading tells.
                if not remaining or (isinstance(error, Invalid) and await self._is_unchanged(node)):
                    raise
            else:
                return Stored.WRITTEN, node
        raise AssertionError("the last attempt returns or raises")

    async def rehearse(self) -> None:
        """What a notice would do now, as a dry run."""
        for remaining in reversed(range(_ATTEMPTS)):
            node = await self._read()
            patch = patch_for(node, Notice(Kind.REBALANCE, _ANY_TIME), self._signal_key)
            try:
                await self._patch(patch or [only_at(node.resource_version)], {"dryRun": "All"})
            except Conflict:
                if not remaining:
                    raise
            else:
                return

    async def tell(self, body: Mapping[str, Any]) -> None:
        """Writes an event."""
        await self._request("POST", EVENTS.path(_EVENTS_NAMESPACE), body=body)

    async def _read(self) -> NodeFacts:
        return node_facts((await self._request("GET", self._path)), CellLabels())

    async def _is_unchanged(self, node: NodeFacts) -> bool:
        return (await self._read()).resource_version == node.resource_version

    async def _patch(self, patch: list[Operation], params: Mapping[str, str] | None = None) -> None:
        await self._request("PATCH", self._path, params=params, body=patch, content_type=_JSON_PATCH)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Any:
        writing = {"fieldManager": FIELD_MANAGER_AGENT} if method != "GET" else {}
        answer = await self._cluster.request(
            method, path, params={**writing, **(params or {})}, body=body, content_type=content_type
        )
        if answer.status >= 300:
            raise failure(f"{method} {path}", answer)
        return answer.json()


class Act:
    """Waits for notices, and stores them. `now` is the wall clock, for the dates of events only."""

    def __init__(self, node: OwnNode, report: Report, now: Callable[[], float]) -> None:
        self._node = node
        self._report = report
        self._now = now
        self._waiting: dict[Kind, Notice] = {}
        self._stored: dict[Kind, tuple[Notice, float]] = {}
        self._work = asyncio.Event()
        self._problem = "the cluster has not been asked yet"

    def tell(self, notice: Notice) -> None:
        """Takes a notice; one that waits already, or was stored a while ago at most, is nothing new."""
        if notice.repeats(self._waiting.get(notice.kind)):
            return
        stored, at = self._stored.get(notice.kind, (None, 0.0))
        if stored is not None and notice.repeats(stored):
            if asyncio.get_running_loop().time() - at < _LOOK_AGAIN:
                return
            notice = stored
        else:
            log.warning("AWS says", notice=str(notice))
            self._report.heard(notice)
        self._waiting[notice.kind] = notice
        self._report.waiting(len(self._waiting))
        self._work.set()

    def problem(self) -> str | None:
        """Why a notice could not be stored now, None if nothing is known to be in its way."""
        return self._problem or None

    async def run(self) -> None:
        """Until cancelled. Raises ClusterAccessError when the cluster refuses what there is no use without."""
        await self._until_permitted()
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._store_all()
            except KubeError as error:
                self._work.set()
                self._failed(error)
                await asyncio.sleep(_pause(pauses, error))
            else:
                self._problem = ""
                pauses.reset()

    async def _until_permitted(self) -> None:
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            try:
                await self._node.rehearse()
            except (Unauthorized, Forbidden) as error:
                raise ClusterAccessError(f"node {self._node.name} cannot be told of notices: {error}") from error
            except KubeError as error:
                self._failed(error)
                # What waits is tried all the same: a rehearsal that fails is not yet a write that would.
                await self._try_waiting()
                await asyncio.sleep(_pause(pauses, error))
            else:
                self._problem = ""
                log.info("ready to tell", node=self._node.name)
                return

    async def _try_waiting(self) -> None:
        try:
            await self._store_all()
        except KubeError as error:
            log.debug("not stored", problem=str(error))

    async def _store_all(self) -> None:
        """The interruption first: there is less time for it."""
        for kind in (Kind.INTERRUPTION, Kind.REBALANCE):
            while (notice := self._waiting.get(kind)) is not None:
                stored, node = await self._node.store(notice)
                self._stored[kind] = notice, asyncio.get_running_loop().time()
                if self._waiting.get(kind) == notice:
                    del self._waiting[kind]
                self._report.stored(stored)
                self._report.waiting(len(self._waiting))
                if stored is Stored.WRITTEN:
                    log.info("stored", notice=str(notice), node=node.name)
                    await self._explain(notice, node)

    async def _explain(self, notice: Notice, node: NodeFacts) -> None:
        """An event is a courtesy: without it the notice is told all the same."""
        try:
            await self._node.tell(event(notice, node, self._now()))
        except KubeError as error:
            log.warning("event not written", problem=str(error))

    def _failed(self, error: KubeError) -> None:
        words = str(error)
        if words != self._problem:
            log.warning("node not written, trying on", node=self._node.name, problem=words)
        self._problem = words
        self._report.stored(Stored.FAILED)


def _pause(pauses: Backoff, error: KubeError) -> float:
    asked = error.retry_after if isinstance(error, ApiError) else None
    return max(pauses.next(), min(asked or 0.0, _LONGEST_ASKED))
