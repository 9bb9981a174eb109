"""An SQS queue, as little of it as is needed. aiobotocore's errors stop here.

Credentials come by the chain of every AWS program (environment, web identity, container, profile, instance).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

# SQS's own limits: messages in one answer or deletion, and seconds of a long poll.
BATCH: Final = 10
WAIT: Final = 20
_CONNECT_WITHIN: Final = 10
# The long poll, and what the network takes.
_READ_WITHIN: Final = WAIT + 10
_ATTEMPTS: Final = 3


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


@asynccontextmanager
async def opened(url: str, region: str) -> AsyncIterator[Queue]:
    """The queue, by the endpoint that its URL names, so that private endpoints need no further setting."""
    config = AioConfig(
        connect_timeout=_CONNECT_WITHIN,
        read_timeout=_READ_WITHIN,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        tcp_keepalive=True,
    )
    try:
        async with get_session().create_client(
            "sqs", region_name=region, endpoint_url=_endpoint(url), config=config
        ) as client:
            yield _Sqs(client, url)
    except BotoCoreError as error:
        raise QueueError(str(error)) from error


def _endpoint(url: str) -> str | None:
    """None for the names of long ago, which have no certificate of their own: then the region's."""
    parts = urlsplit(url)
    legacy = (parts.hostname or "").endswith("queue.amazonaws.com")
    return None if legacy else f"{parts.scheme}://{parts.netloc}"


class _Sqs:
    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url

    async def receive(self) -> Sequence[Message]:
        try:
            answer = await self._client.receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=WAIT
            )
        except (BotoCoreError, ClientError) as error:
            raise QueueError(str(error)) from error
        return [Message(each["ReceiptHandle"], each["Body"]) for each in answer.get("Messages") or ()]

    async def delete(self, messages: Sequence[Message]) -> int:
        entries = [{"Id": str(at), "ReceiptHandle": each.receipt} for at, each in enumerate(messages)]
        try:
            answer = await self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        except (BotoCoreError, ClientError) as error:
            raise QueueError(str(error)) from error
        return len(answer.get("Failed") or ())
