"""Pods created one after the other through an API server, and who is to blame for those that could not be."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import orjson

from ebbtide import vocabulary
from tests.controlplane.world import PATIENCE, World

RATE: Final = 50.0
# A machine that does not keep up with the rate is not buried under what it has missed: it makes up for it later.
_MOST_AT_ONCE: Final = 20
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_LONGEST: Final = PATIENCE


@dataclass(frozen=True)
class Creation:
    """One creation, dry. Times are loop times; `status` 0 is no answer; `zones` are those the pod is kept out of."""

    began: float
    ended: float
    status: int
    words: str = ""
    zones: tuple[str, ...] = ()

    @property
    def created(self) -> bool:
        return self.status == 201

    @property
    def refused_by_webhook(self) -> bool:
        """The API server names the webhook that it could not call, or that refused."""
        return not self.created and "webhook" in self.words


@dataclass
class Window:
    """A time in which somebody else has broken something; open until `end` is known."""

    begin: float
    end: float = float("inf")

    def touches(self, creation: Creation) -> bool:
        return creation.began <= self.end and creation.ended >= self.begin


GUARDED: Final[Mapping[str, str]] = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}


class Creations:
    """Pods of the world's group, none of which is stored. The webhook knows them by `labels`.

    One is due every `RATE`th part of a second, and each that was due is sent, if late.
    """

    def __init__(self, cluster: World, labels: Mapping[str, str] = GUARDED) -> None:
        self.done: list[Creation] = []
        self._span = Window(0.0)
        self._cluster = cluster
        self._url = f"{cluster.plane.server}/api/v1/namespaces/{cluster.namespace}/pods?dryRun=All"
        self._body = orjson.dumps(_pod(cluster, labels))

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """For as long as this lasts; then for those that are due, and their answers, is waited."""
        access = self._cluster.access()
        headers = {**await access.headers(), "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=_LONGEST)
        async with (
            aiohttp.ClientSession(connector=access.connector(), headers=headers, timeout=timeout) as session,
            asyncio.TaskGroup() as group,
        ):
            clock = asyncio.get_running_loop().time
            self._span.begin = clock()
            group.create_task(self._pace(session, group))
            yield
            self._span.end = clock()

    @property
    def due(self) -> int:
        """How many were to be sent by the end."""
        return int((self._span.end - self._span.begin) * RATE) + 1

    @property
    def reached(self) -> str:
        """How many came in time, in words."""
        seconds = self._span.end - self._span.begin
        begun = sum(each.began <= self._span.end for each in self.done)
        return f"{begun / seconds:.1f} per second of {RATE:.0f} for {seconds:.0f} s"

    async def one_more(self) -> None:
        """Until one is done that has begun after this."""
        since = asyncio.get_running_loop().time()

        async def done() -> bool:
            return any(each.began > since for each in self.done[-2 * _MOST_AT_ONCE :])

        await self._cluster.wait_until(done, "pods are being created")

    async def _pace(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        free, clock = asyncio.Semaphore(_MOST_AT_ONCE), asyncio.get_running_loop().time
        for number in itertools.count():
            due = self._span.begin + number / RATE
            await asyncio.sleep(due - clock())
            if due > self._span.end:
                return
            await free.acquire()
            group.create_task(self._create(session)).add_done_callback(lambda _: free.release())

    async def _create(self, session: aiohttp.ClientSession) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with session.post(self._url, data=self._body) as answer:
                found = orjson.loads(await answer.read())
                words = "" if answer.status == 201 else str(found.get("message"))
                zones = excluded(found) if answer.status == 201 else ()
                self.done.append(Creation(began, clock(), answer.status, words, zones))
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            self.done.append(Creation(began, clock(), 0, repr(error)))


def excluded(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The zones that every term of the required node affinity excludes."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    each = [
        {
            zone
            for expression in term.get("matchExpressions", ())
            if (expression["key"], expression["operator"]) == (vocabulary.ZONE_LABEL, "NotIn")
            for zone in expression["values"]
        }
        for term in terms
    ]
    return tuple(sorted(set.intersection(*each))) if each else ()


def _pod(cluster: World, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "load-", "labels": dict(labels)},
        "spec": {
            "nodeSelector": {vocabulary.NODE_GROUP_LABEL: cluster.group},
            "containers": [{"name": "main", "image": "none"}],
        },
    }
