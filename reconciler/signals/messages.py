"""What the reader knows of a queue, whatever it is made of."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol

# SQS's own limits: messages in one answer or deletion, and seconds of a long poll.
BATCH: Final = 10
WAIT: Final = 20


class QueueError(Exception):
    """The queue could not be read or written; the words are its own."""


@dataclass(frozen=True, slots=True)
class Message:
    """`receipt` is what it is deleted by, good for the visibility timeout."""

    receipt: str
    body: str


class Queue(Protocol):
    """Raises QueueError."""

    async def receive(self) -> Sequence[Message]:
        """Up to `BATCH` messages, none if none came for `WAIT` seconds."""
        ...

    async def delete(self, messages: Sequence[Message]) -> int:
        """Deletes up to `BATCH` of them; how many could not be."""
        ...


Opening = AbstractAsyncContextManager[Queue]
