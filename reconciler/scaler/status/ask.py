"""One question to one worker, bounded in time and size. What goes wrong is StatusUnknown; aiohttp's errors stop here.

Workers are asked by their pod's address and not by name: a name may lead to the pod before, or after, the one meant.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import aiohttp

from ebbtide.config.scaler import WorkerScaler
from ebbtide.connecting import words_of
from reconciler.engine.context import Connect
from reconciler.scaler.address import Addresses
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.status.book import Listed, StatusUnknown
from reconciler.scaler.task import TaskId, TaskState, read_states

# Tens of thousands of entries, more than a worker keeps even when it never collects what has ended.
LARGEST_LIST: Final = 16 << 20
_LARGEST_WORDS: Final = 4096
# What a worker of one cluster says to whoever asks for another.
_OTHER_CLUSTER: Final = b"cluster id mismatch"


class Workers:
    """The way to all workers. Works while `run` runs; before and after it every question is StatusUnknown."""

    def __init__(self, settings: WorkerScaler, connect: Connect) -> None:
        self.name = "connections to workers"
        self._addresses = Addresses.of(settings)
        self._template = settings.template_sts_name
        self._within = settings.status_timeout
        self._connect = connect
        self._session: aiohttp.ClientSession | None = None

    async def run(self) -> None:
        """Until cancelled."""
        # Each question has a deadline for all its requests.
        unlimited = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=self._connect(), timeout=unlimited) as session:
            self._session = session
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._session = None

    async def ask(self, pod: WorkerPod, clusters: Collection[int]) -> Listed:
        """What the worker lists for these clusters, all of it or nothing. Raises StatusUnknown.

        A worker that belongs to one of them refuses to speak of the others: it has no tasks of theirs. One that
        belongs to none of them has said nothing.
        """
        if not clusters:
            raise StatusUnknown(f"no cluster is known yet to ask {pod.name} for")
        states: list[TaskState] = []
        of: list[int] = []
        answered = False
        async with self._deadline(pod):
            for cluster in sorted(clusters):
                found = await self._list(pod, cluster)
                answered = answered or found is not None
                states += found or ()
                of += [cluster] * len(found or ())
        if not answered:
            raise StatusUnknown(f"{pod.name} belongs to none of the clusters {sorted(clusters)}")
        return Listed(tuple(states), tuple(of), frozenset(clusters))

    async def cancel(self, pod: WorkerPod, cluster: int, task: TaskId) -> bool:
        """Passes a cancel on; False when the worker does not know the task. Raises StatusUnknown."""
        params = {"cluster_id": str(cluster), "task_id": str(task)}
        async with self._deadline(pod), self._request("DELETE", pod, params) as response:
            if response.status not in (200, 404):
                raise StatusUnknown(await _refusal(pod, response))
            return response.status == 200

    async def _list(self, pod: WorkerPod, cluster: int) -> tuple[TaskState, ...] | None:
        """None when the worker is not of that cluster."""
        async with self._request("GET", pod, {"cluster_id": str(cluster)}) as response:
            if response.status == 200:
                return _read(pod, await _body(response, LARGEST_LIST))
            if response.status == 400 and _OTHER_CLUSTER in await _body(response, _LARGEST_WORDS):
                return None
            raise StatusUnknown(await _refusal(pod, response))

    def _request(
        self, method: str, pod: WorkerPod, params: dict[str, str]
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            raise StatusUnknown("this process does not ask workers at the moment")
        return self._session.request(method, self._url(pod), params=params, allow_redirects=False)

    def _url(self, pod: WorkerPod) -> str:
        origin = self._addresses.asked(pod, local=pod.set_name == self._template)
        if not origin:
            raise StatusUnknown(f"{pod.name} has no address yet")
        return f"{origin}/load_data"

    @asynccontextmanager
    async def _deadline(self, pod: WorkerPod) -> AsyncIterator[None]:
        """One for everything that is asked of a worker at once, however many clusters there are."""
        try:
            async with asyncio.timeout(self._within):
                yield
        except TimeoutError as error:
            raise StatusUnknown(f"{pod.name} did not answer within {self._within:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise StatusUnknown(f"{pod.name} cannot be reached: {words_of(error)}") from error


def _read(pod: WorkerPod, body: bytes) -> tuple[TaskState, ...]:
    if len(body) > LARGEST_LIST:
        raise StatusUnknown(f"the list of {pod.name} is longer than {LARGEST_LIST} bytes")
    try:
        return read_states(body)
    except ValueError as error:
        raise StatusUnknown(f"the list of {pod.name} cannot be read: {error}") from error


async def _body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """At most one byte more than `most`."""
    chunks: list[bytes] = []
    left = most + 1
    async for chunk in response.content.iter_any():
        chunks.append(chunk[:left])
        left -= len(chunks[-1])
        if left <= 0:
            break
    return b"".join(chunks)


async def _refusal(pod: WorkerPod, response: aiohttp.ClientResponse) -> str:
    words = (await _body(response, 200)).decode("utf-8", "replace")
    return f"{pod.name} answers {response.status}: {words}".rstrip(": ")
