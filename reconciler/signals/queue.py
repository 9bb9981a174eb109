"""An SQS queue, as little of it as is needed. aiobotocore's errors stop here.

Only imported where a queue is named: aiobotocore is an extra. What others need to know of a queue is in `messages`.
Credentials come by the chain of every AWS program (environment, web identity, container, profile, instance).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from ebbtide.connecting import words_of
from reconciler.signals.messages import BATCH, WAIT, Message, Queue, QueueError

_CONNECT_WITHIN: Final = 10
# The long poll, and what the network takes.
_READ_WITHIN: Final = WAIT + 10
_ATTEMPTS: Final = 3


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
        raise QueueError(_words(error)) from error


def _words(error: BotoCoreError | ClientError) -> str:
    """botocore's own, but for a connection that could not be had: it keeps what that was of."""
    inner = getattr(error, "kwargs", {}).get("error")
    return words_of(inner) if isinstance(inner, Exception) else str(error)


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
            raise QueueError(_words(error)) from error
        return [Message(each["ReceiptHandle"], each["Body"]) for each in answer.get("Messages") or ()]

    async def delete(self, messages: Sequence[Message]) -> int:
        entries = [{"Id": str(at), "ReceiptHandle": each.receipt} for at, each in enumerate(messages)]
        try:
            answer = await self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        except (BotoCoreError, ClientError) as error:
            raise QueueError(_words(error)) from error
        return len(answer.get("Failed") or ())
