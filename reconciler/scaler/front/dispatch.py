"""What a request gets, apart from HTTP: which replica is to answer, and what the desk says.

    this replica leads       the desk decides
    another one does         clients of init and state are sent there; lists and deletes are passed on
    nobody does, or unknown  503; only where tasks already are is told from memory: a client that was restarted
                             gives up for good on anything else

A client that hangs up ends its own waiting and nothing else: the desk's work goes on by itself, and deletes are run
beside their requests. Nothing waits without an end.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, assert_never

import orjson
import structlog

from reconciler.scaler.contract import Arrival, Desk, Place, Refused, TaskRecord, Unavailable
from reconciler.scaler.front import answers
from reconciler.scaler.front.answers import Answer
from reconciler.scaler.front.follower import Leadership, same
from reconciler.scaler.front.forward import Forward
from reconciler.scaler.front.query import BulkDelete, Delete, Existence, Init, Listing, PassedOn
from reconciler.scaler.task import TaskState, write_states

log = structlog.stdlib.get_logger(__name__)

# Workers are asked with timeouts of their own; these are for what nobody has thought of.
DELETE_WITHIN: Final = 60.0
_SPARE: Final = 15.0
# Those of clients that have hung up included, which nobody else counts.
_MOST_DELETES: Final = 512

Wanted = Init | Existence | PassedOn


class Dispatch:
    """`start_timeout` is how long the desk may take to find a place, in seconds."""

    def __init__(self, desk: Desk, leadership: Leadership, forward: Forward, start_timeout: float) -> None:
        self._desk = desk
        self._leadership = leadership
        self._forward = forward
        self._patience = start_timeout + _SPARE
        self._deletes: asyncio.TaskGroup | None = None
        self._deleting = 0
        self._waits: set[asyncio.Timeout] = set()
        self._succession: asyncio.Event | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For as long as requests are answered; at the end deletes that are under way are waited for."""
        async with self._forward, asyncio.TaskGroup() as self._deletes:
            yield

    def leave(self) -> None:
        """The process ends: whoever has to be sent to a leader waits until the next one is known, see `let_go`."""
        self._succession = self._succession or asyncio.Event()

    def let_go(self) -> None:
        """Ends all waiting: the next leader is known, or will not be in time."""
        self.leave()
        if self._succession is not None:
            self._succession.set()
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(now)

    def leads(self) -> Answer:
        """Whether this replica is the one to ask, for another front that is about to send clients here."""
        return answers.DONE if self._leadership.leads() else answers.later(self._leadership.trouble())

    async def __call__(self, asked: Wanted, *, passed_on: bool = False) -> Answer:
        """`passed_on` by another front, which takes this one for the leader's."""
        if self._leadership.leads():
            return await self._decide(asked)
        return await self._follow(asked, passed_on=passed_on)

    # --- as the leader --------------------------------------------------------------------------------------------

    async def _decide(self, asked: Wanted) -> Answer:
        match asked:
            case Init(arrival):
                return await self._init(asked, arrival)
            case Existence():
                return self._state(asked)
            case Listing(cluster):
                return self._list(cluster)
            case Delete() | BulkDelete():
                return await self._beside(asked)
            case _:
                assert_never(asked)

    async def _init(self, asked: Init, arrival: Arrival) -> Answer:
        wait = asyncio.timeout(self._patience)
        try:
            async with wait:
                self._waits.add(wait)
                return self._to(await self._desk.place(arrival))
        except Refused as refusal:
            return answers.refused(str(refusal))
        except Unavailable as trouble:
            answer = answers.later(str(trouble), trouble.retry_after)
        except TimeoutError:
            answer = answers.later("the worker is not ready yet")
        finally:
            self._waits.discard(wait)
        stays = self._leadership.leads() and self._succession is None
        return answer if stays else await self._follow(asked, passed_on=False)

    def _state(self, asked: Existence) -> Answer:
        place = self._desk.find(asked.task, asked.cluster)
        if place is not None:
            return self._to(place)
        return self._missing(asked)

    def _missing(self, asked: Existence | Delete) -> Answer:
        """Before all that was placed is known, a task that is not is no unknown one."""
        unknown = self._desk.unknown(asked.cluster)
        return answers.later(unknown) if unknown else answers.not_found(f"task {asked.task} is unknown")

    def _list(self, cluster: int) -> Answer:
        unknown = self._desk.unknown(cluster)
        if unknown:
            return answers.later(unknown)
        states = [_state(record) for record in self._desk.records(cluster)]
        return answers.listed(orjson.dumps(write_states(states)))

    async def _beside(self, asked: Delete | BulkDelete) -> Answer:
        assert self._deletes is not None, "deletes are only taken while running"
        if self._deleting >= _MOST_DELETES:
            return answers.later("too many deletes at once")
        return await asyncio.shield(self._deletes.create_task(self._delete(asked), name="front: delete"))

    async def _delete(self, asked: Delete | BulkDelete) -> Answer:
        """Never raises: a fault in one delete is none of the others' business."""
        self._deleting += 1
        try:
            async with asyncio.timeout(DELETE_WITHIN):
                return await self._cancel(asked)
        except Refused as refusal:
            return answers.refused(str(refusal))
        except Unavailable as trouble:
            return answers.later(str(trouble), trouble.retry_after)
        except TimeoutError:
            return answers.later("workers have not answered in time")
        except Exception as error:  # whatever it is, the client may come again
            log.error("delete failed", exc_info=error)
            return answers.fault()
        finally:
            self._deleting -= 1

    async def _cancel(self, asked: Delete | BulkDelete) -> Answer:
        if isinstance(asked, BulkDelete):
            return await self._cancel_all(asked)
        if not await self._desk.cancel(asked.task, asked.cluster):
            return self._missing(asked)
        log.info("task cancelled", task=str(asked.task), cluster=asked.cluster)
        return answers.DONE

    async def _cancel_all(self, asked: BulkDelete) -> Answer:
        unknown = self._desk.unknown(asked.cluster)
        if unknown:
            return answers.later(unknown)
        count = await self._desk.cancel_all(str(asked.prefix), asked.cluster)
        log.info("tasks cancelled", prefix=str(asked.prefix), cluster=asked.cluster, tasks=count)
        return answers.DONE

    def _to(self, place: Place) -> Answer:
        if not place.ready:
            return answers.later(place.reason or f"the worker of task {place.task} is not ready yet")
        if self._is_front(place.address):
            log.error("task is at the address of a front", task=str(place.task), address=place.address)
            return answers.later(f"task {place.task} is at {place.address}, which is no worker")
        return answers.moved(place.address)

    def _is_front(self, address: str) -> bool:
        return any(same(address, front) for front in (self._leadership.own, self._leadership.leader()) if front)

    # --- as any other replica -------------------------------------------------------------------------------------

    async def _follow(self, asked: Wanted, *, passed_on: bool) -> Answer:
        leader = self._leadership.leader()
        if not leader and self._succession is not None:
            await self._succession.wait()
            leader = self._leadership.leader()
        if isinstance(asked, Init | Existence):
            return await self._send_on(leader) if leader else self._from_memory(asked)
        if not leader or passed_on:
            return answers.later(self._leadership.trouble())
        return await self._forward(asked, leader)

    async def _send_on(self, leader: str) -> Answer:
        if await self._forward.finds(leader):
            return answers.moved(leader)
        return answers.later(f"the leading replica is not to be found at {leader}")

    def _from_memory(self, asked: Init | Existence) -> Answer:
        place = self._desk.find(asked.task, asked.cluster) if isinstance(asked, Existence) else None
        return answers.later(self._leadership.trouble()) if place is None else self._to(place)


def _state(record: TaskRecord) -> TaskState:
    """A task that no worker has told of yet has done nothing so far."""
    return record.seen or TaskState(record.task)
