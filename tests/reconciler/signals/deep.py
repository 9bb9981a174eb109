"""A queue that may be deep: what SQS does with messages, at the cost of a dictionary.

moto looks at every message of a queue in every request; with ten thousand of them nothing else would get done. Here are
the actions that a reader uses: messages are handed out from the front, come again after their time, move to the poison
after so many receipts, and go by their receipt. `deleting` is asked about each message that is about to be deleted.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from tests.controlplane.proxy import GOODBYE

_CONTENT_TYPE: Final = "application/x-amz-json-1.0"


@dataclass(slots=True)
class _Message:
    body: str
    receipts: int = 0


@dataclass
class DeepQueue:
    """`dead` are the bodies of the poison, `handed_out` and `deleted` count messages. Times are in seconds."""

    visibility: float
    redrive_after: int
    deleting: Callable[[str], None]
    dead: list[str] = field(default_factory=list)
    handed_out: int = 0
    deleted: int = 0
    url: str = ""
    _waiting: deque[_Message] = field(default_factory=deque)
    _under_way: dict[str, _Message] = field(default_factory=dict)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, bodies: Iterable[str]) -> None:
        self._waiting.extend(map(_Message, bodies))
        self._arrived.set()

    def depth(self) -> int:
        """Messages that are not deleted, handed out ones included, the poison not."""
        return len(self._waiting) + len(self._under_way)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        wish = json.loads(await request.read())
        action = request.headers["X-Amz-Target"].rpartition(".")[2]
        answer = await self._receive(wish) if action == "ReceiveMessage" else self._delete(action, wish)
        return web.Response(text=json.dumps(answer), content_type=_CONTENT_TYPE)

    async def _receive(self, wish: dict[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(wish["WaitTimeSeconds"]):
                while not self._waiting:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return {}
        messages = [
            self._hand_out(self._waiting.popleft()) for _ in range(wish["MaxNumberOfMessages"]) if self._waiting
        ]
        return {"Messages": [each for each in messages if each]}

    def _hand_out(self, message: _Message) -> dict[str, str]:
        """Empty for poison, which moves at what would be one receipt too many."""
        if message.receipts == self.redrive_after:
            self.dead.append(message.body)
            return {}
        message.receipts += 1
        self.handed_out += 1
        receipt = f"receipt-{self.handed_out}"
        self._under_way[receipt] = message
        asyncio.get_running_loop().call_later(self.visibility, self._come_again, receipt)
        return {"MessageId": receipt, "ReceiptHandle": receipt, "Body": message.body}

    def _come_again(self, receipt: str) -> None:
        if message := self._under_way.pop(receipt, None):
            self._waiting.append(message)
            self._arrived.set()

    def _delete(self, action: str, wish: dict[str, Any]) -> dict[str, Any]:
        assert action == "DeleteMessageBatch", action
        for entry in wish["Entries"]:
            if message := self._under_way.pop(entry["ReceiptHandle"], None):
                self.deleting(message.body)
                self.deleted += 1
        return {"Successful": [{"Id": entry["Id"]} for entry in wish["Entries"]], "Failed": []}


@asynccontextmanager
async def deep_queue(
    deleting: Callable[[str], None], *, visibility: float, redrive_after: int
) -> AsyncIterator[DeepQueue]:
    """An empty one, served on loopback."""
    queue = DeepQueue(visibility, redrive_after, deleting)
    runner = web.ServerRunner(web.Server(queue.answer, access_log=None), shutdown_timeout=GOODBYE)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        queue.url = "http://{}:{}/123456789012/deep".format(*runner.addresses[0][:2])
        yield queue
    finally:
        await runner.cleanup()
