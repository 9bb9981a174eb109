"""An SQS of moto on loopback, a gate in front of it that can hold requests, and messages as EventBridge sends them."""

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
from aiobotocore.session import get_session
from aiohttp import web

from tests.controlplane.processes import free_port
from tests.controlplane.proxy import GOODBYE
from tests.controlplane.world import wait_until

REGION = "eu-central-1"
# moto takes anything; without credentials the client would look for an instance's.
CREDENTIALS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
_HOP_BY_HOP = ("host", "content-length")
_CONTENT_TYPE = "application/x-amz-json-1.0"
_BATCH = 10


@asynccontextmanager
async def moto() -> AsyncIterator[str]:
    """The URL of a server of its own."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await wait_until(partial(_serves, port), "the server of queues listens")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def _serves(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


class QueueOfTest:
    """A queue, seen from outside; `dead` is where its poison goes."""

    def __init__(self, client: Any, url: str, dead: "QueueOfTest | None" = None) -> None:
        self._client = client
        self.url = url
        self.dead = dead

    async def send(self, *bodies: str) -> None:
        for at in range(0, len(bodies), _BATCH):
            entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies[at : at + _BATCH])]
            await self._client.send_message_batch(QueueUrl=self.url, Entries=entries)

    async def depth(self) -> int:
        """How many messages there are, handed out ones included.

        moto counts those first that can be seen and then the others: one that changes sides meanwhile is counted twice,
        or not at all. So it is asked until it says the same again.
        """
        before = await self._counted()
        while (now := await self._counted()) != before:
            before = now
        return now

    async def _counted(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = await self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return sum(int(value) for value in answer["Attributes"].values())

    async def emptied(self) -> None:
        """Waits until every message was deleted."""

        async def empty() -> bool:
            return not await self.depth()

        await wait_until(empty, "the queue is empty")


@asynccontextmanager
async def new_queue(server: str, *, visibility: int = 1, redrive_after: int = 0) -> AsyncIterator[QueueOfTest]:
    """A queue whose messages come again after `visibility` seconds; with `redrive_after` they move to `.dead`."""
    async with get_session().create_client("sqs", region_name=REGION, endpoint_url=server) as client:
        name = secrets.token_hex(6)
        attributes, dead = {"VisibilityTimeout": str(visibility)}, None
        if redrive_after:
            dead = QueueOfTest(client, (await client.create_queue(QueueName=f"{name}-dead"))["QueueUrl"])
            arn = f"arn:aws:sqs:{REGION}:123456789012:{name}-dead"
            attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": redrive_after})
        url = (await client.create_queue(QueueName=name, Attributes=attributes))["QueueUrl"]
        yield QueueOfTest(client, url, dead)


@dataclass
class Gate:
    """A way to the queue. Requests of an action in `before` are not passed on, answers to one in `after` not back.

    Actions in `refused` are answered with 503. `actions` are those of all requests, `answered` those of requests that
    the queue itself has answered.
    """

    server: str
    before: set[str] = field(default_factory=set)
    after: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    actions: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    url: str = ""

    def through(self, queue: QueueOfTest) -> str:
        """The queue's URL by way of the gate."""
        return queue.url.replace(self.server, self.url)

    async def pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        action = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        self.actions.append(action)
        body = await request.read()
        if action in self.refused:
            return web.Response(status=503)
        if action in self.before:
            await self._hold()
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        body = body.replace(self.url.encode(), self.server.encode())
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, self.server + request.path_qs, data=body, headers=headers) as answer,
        ):
            content = await answer.read()
        if action in self.after:
            await self._hold()
        self.answered.append(action)
        return web.Response(status=answer.status, body=content, content_type=_CONTENT_TYPE)

    async def _hold(self) -> None:
        self.held.set()
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def gate(server: str) -> AsyncIterator[Gate]:
    standing = Gate(server)
    runner = web.ServerRunner(
        web.Server(standing.pass_on, access_log=None, handler_cancellation=True), shutdown_timeout=GOODBYE
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        standing.url = "http://{}:{}".format(*runner.addresses[0][:2])
        yield standing
    finally:
        await runner.cleanup()


@dataclass
class OneByOne:
    """A way to the server on which one request waits for the other.

    moto answers in threads and rebuilds the list of a queue's messages without a lock: what is sent while something is
    deleted may vanish from it. Long polls become short ones here, or nobody else would get through.
    """

    server: str
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        # With the host that was asked: moto makes the queues' URLs of it.
        headers = {key: value for key, value in request.headers.items() if key.lower() != "content-length"}
        if request.headers.get("X-Amz-Target", "").endswith(".ReceiveMessage"):
            return await self._poll(request, json.loads(body), headers)
        status, content = await self._forward(request, body, headers)
        return web.Response(status=status, body=content, content_type=_CONTENT_TYPE)

    async def _poll(self, request: web.BaseRequest, wish: dict[str, Any], headers: Mapping[str, str]) -> web.Response:
        loop = asyncio.get_running_loop()
        until, short = loop.time() + wish.get("WaitTimeSeconds", 0), json.dumps({**wish, "WaitTimeSeconds": 0})
        while True:
            status, content = await self._forward(request, short.encode(), headers)
            if status != 200 or json.loads(content).get("Messages") or loop.time() >= until:
                return web.Response(status=status, body=content, content_type=_CONTENT_TYPE)
            await asyncio.sleep(0.05)

    async def _forward(self, request: web.BaseRequest, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        async with (
            self.turn,
            aiohttp.ClientSession() as session,
            session.request(request.method, self.server + request.path_qs, data=body, headers=headers) as answer,
        ):
            return answer.status, await answer.read()


@asynccontextmanager
async def one_by_one(server: str) -> AsyncIterator[str]:
    """The URL of such a way."""
    runner = web.ServerRunner(web.Server(OneByOne(server).pass_on, access_log=None), shutdown_timeout=GOODBYE)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


def rebalance(instance: str, time: str = "2026-03-01T11:58:00Z") -> str:
    """A message of EventBridge, as the user guide shows it."""
    return _envelope("EC2 Instance Rebalance Recommendation", time, {"instance-id": instance})


def interruption(instance: str, time: str = "2026-03-01T12:00:00Z") -> str:
    detail = {"instance-id": instance, "instance-action": "terminate"}
    return _envelope("EC2 Spot Instance Interruption Warning", time, detail)


def _envelope(kind: str, time: str, detail: Mapping[str, str]) -> str:
    return json.dumps(
        {
            "version": "0",
            "id": "12345678-1234-1234-1234-123456789012",
            "detail-type": kind,
            "source": "aws.ec2",
            "account": "123456789012",
            "time": time,
            "region": REGION,
            "resources": [f"arn:aws:ec2:{REGION}a:instance/{detail['instance-id']}"],
            "detail": dict(detail),
        }
    )
