"""Reads the queue while this process leads.

A message is received, its notice stored on the node, and only then it is deleted: whatever ends the process in between,
the queue hands the message out again, and what is stored already is not stored twice. At no time are more than
`RECEIVERS` answers of the queue in memory.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ebbtide.kube.backoff import Backoff
from ebbtide.kube.errors import KubeError, NotLeading
from reconciler.engine.together import together
from reconciler.signals.act import Act
from reconciler.signals.decide import Result
from reconciler.signals.envelope import MalformedError, read
from reconciler.signals.messages import Message, Opening, Queue, QueueError
from reconciler.signals.report import Report

# Each waits in a long poll: four keep some requests to the API server under way when messages come by the thousand.
RECEIVERS: Final = 4
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


class QueueReader:
    """One queue. `opening` makes the connection, anew in each term of leading."""

    def __init__(self, opening: Callable[[], Opening], act: Act, report: Report) -> None:
        self.name = "signals"
        self._opening = opening
        self._act = act
        self._report = report
        self._draining = asyncio.Event()
        self._started: dict[object, float] = {}

    async def run(self) -> None:
        """Reads until drained or cancelled."""
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        try:
            while not self._draining.is_set():
                try:
                    async with self._opening() as queue, asyncio.TaskGroup() as group:
                        for number in range(RECEIVERS):
                            group.create_task(self._receive(queue), name=f"{self.name}: receiver {number}")
                except* QueueError as errors:
                    # The connection could not even be set up.
                    self._report.failed(str(errors.exceptions[0]))
                    await self._pause(pauses.next())
        finally:
            self._report.idle()

    def drain(self) -> None:
        """Receives no more, finishes what was received."""
        self._draining.set()

    def longest(self) -> float:
        """Seconds for which the oldest messages under way have been."""
        if not self._started:
            return 0.0
        return asyncio.get_running_loop().time() - min(self._started.values())

    async def _receive(self, queue: Queue) -> None:
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while not self._draining.is_set():
            try:
                messages = await self._next(queue)
                self._report.answered()
                if messages:
                    await self._take(queue, messages)
            except QueueError as error:
                self._report.failed(str(error))
                await self._pause(pauses.next())
            else:
                pauses.reset()

    async def _next(self, queue: Queue) -> Sequence[Message]:
        """What comes first: messages, or the end. Messages on their way then come again after their time."""
        receiving = asyncio.ensure_future(queue.receive())
        draining = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait((receiving, draining), return_when=asyncio.FIRST_COMPLETED)
            return receiving.result() if receiving.done() else ()
        finally:
            for waiting in (receiving, draining):
                waiting.cancel()
            await asyncio.gather(receiving, draining, return_exceptions=True)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._draining.wait()
        except TimeoutError:
            return

    async def _take(self, queue: Queue, messages: Sequence[Message]) -> None:
        """Stores what the messages say, all at once, and deletes those that are done with."""
        mark = object()
        self._started[mark] = asyncio.get_running_loop().time()
        try:
            results = await together(map(self._store, messages))
            done = [message for message, result in zip(messages, results, strict=True) if result.done]
            if done:
                await self._delete(queue, done)
        finally:
            del self._started[mark]

    async def _delete(self, queue: Queue, done: Sequence[Message]) -> None:
        """What could not be deleted comes again, and changes nothing: no reason to pause."""
        try:
            self._report.undeleted(await queue.delete(done))
        except QueueError as error:
            self._report.undeleted(len(done), str(error))

    async def _store(self, message: Message) -> Result:
        result, why = await self._attempt(message)
        self._report.became(result, why)
        return result

    async def _attempt(self, message: Message) -> tuple[Result, str]:
        try:
            told = read(message.body)
            if told is None:
                return Result.OTHER_KIND, "neither of the two kinds of events that are read"
            result, node = await self._act.store(told)
        except MalformedError as error:
            return Result.MALFORMED, str(error)
        except NotLeading:
            return Result.FAILED, ""
        except KubeError as error:
            return Result.FAILED, str(error)
        except Exception as error:  # a defect that one message meets holds up neither its siblings nor the leader
            self._report.defect(error)
            return Result.FAILED, ""
        if result is Result.STORED and node is not None:
            self._report.stored(told.notice, node)
        return result, ""
