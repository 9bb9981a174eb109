"""Why pods of a StatefulSet are not made, in the words of the API server.

A quota, a limit range, Pod Security or an admission webhook refuses the pod, or a claim of it, to the controller of the
set and not to us, and nothing of that is in the set's status: the controller tells it in an event about the set alone.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import structlog

from ebbtide.clock import Clock
from ebbtide.exclusion.fields import mapping
from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError
from ebbtide.kube.resources import EVENTS, STATEFUL_SETS
from ebbtide.model import parse_time
from reconciler.engine.verdict import words

log = structlog.stdlib.get_logger(__name__)

# Events of all sets are read at once, and no more often than this: the API server goes through every event of the
# namespace for it, and a quota refuses the pods of all workers together.
READ_EVERY: Final = 10.0
# How far the clocks of other machines, which events carry the time of, may be from ours.
CLOCKS_DIFFER: Final = 60.0
SELECTOR: Final = f"reason=FailedCreate,type=Warning,regarding.kind={STATEFUL_SETS.kind}"
# `create Pod x-0 in StatefulSet x failed error: pods "x-0" is forbidden: …`; of a claim likewise.
_BEFORE_THE_CAUSE: Final = "failed error: "
# Some admission webhooks answer with pages, and clients are told this.
_LONGEST: Final = 400

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """`at` in epoch seconds of the API server's clock, or of its controllers'."""

    at: float
    words: str


def code_of(told: str) -> Literal["QuotaExceeded", "PodRefused"]:
    """What clients, events, metrics and state call it that the API server refuses something with these words."""
    return "QuotaExceeded" if is_of_quota(told) else "PodRefused"


def is_of_quota(told: str) -> bool:
    """Whether a ResourceQuota has refused it."""
    return "exceeded quota" in told


def newest(events: Iterable[Raw]) -> dict[str, Refusal]:
    """The last refusal of each set, by its UID."""
    found: dict[str, Refusal] = {}
    for event in events:
        uid, refusal = str(mapping(event, "regarding").get("uid") or ""), _refusal(event)
        known = found.get(uid)
        if uid and (known is None or refusal.at >= known.at):
            found[uid] = refusal
    return found


def _refusal(event: Raw) -> Refusal:
    """Repeated events have their last time in either of two places, depending on who tells them."""
    series = mapping(event, "series").get("lastObservedTime")
    times = (series, event.get("deprecatedLastTimestamp"), event.get("eventTime"))
    at = max((parsed for each in times if (parsed := parse_time(each)) is not None), default=0.0)
    note = str(event.get("note") or "the API server refuses it")
    cause = note.partition(_BEFORE_THE_CAUSE)[2] or note
    return Refusal(at, cause if len(cause) <= _LONGEST else f"{cause[:_LONGEST]}…")


class Refusals:
    """The last refusals in one namespace."""

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._known: dict[str, Refusal] = {}
        self._read_at = float("-inf")
        self._one_reader = asyncio.Lock()
        self._failing = False

    async def of(self, uid: str, since: float = 0.0) -> str:
        """The last words about pods of that set, from epoch second `since` on; "" for none, or none that can be read.

        They are READ_EVERY seconds old at most. Never raises KubeError: a worker is looked after without them too.
        """
        async with self._one_reader:
            if self._clock.monotonic() - self._read_at >= READ_EVERY:
                await self._read()
        known = self._known.get(uid)
        return known.words if known is not None and known.at >= since else ""

    async def _read(self) -> None:
        self._read_at = self._clock.monotonic()
        try:
            events, _ = await self._client.list_all(EVENTS, namespace=self._namespace, field_selector=SELECTOR)
        except KubeError as error:
            tell = log.debug if self._failing else log.warning
            tell("events of the workers' sets cannot be read", error=words(error))
            self._failing = True
            return
        self._known, self._failing = newest(events), False
