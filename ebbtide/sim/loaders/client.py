"""A client of the load-data protocol: TiDB Lightning's remote backend, with its habits, good and bad.

redirects   followed on init and on the existence check only, at once and without end; `/load_data` is cut off the
            Location, exactly, and every later URL is built from the rest
retries     transport errors, 500, 503 and 408: after a pause, at the same address, very often
the rest    any other answer ends the import for good
restart     the existence check at the front, then init anew
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import orjson

SUFFIX: Final = "/load_data"
_REPEATED: Final = frozenset((408, 500, 503))
# As the real one: five hours in all.
_PAUSE: Final = 3.0
_TRIES: Final = 6000
_POLL_EVERY: Final = 5.0


class ImportFailedError(Exception):
    """The import is over without success: the client has given up. `status` is 0 where no server ever answered."""

    def __init__(self, what: str, status: int, text: str) -> None:
        super().__init__(f"{what}: {status} {text.strip()}")
        self.status = status
        self.text = text


@dataclass(frozen=True)
class Heard:
    """An answer as the client sees it. `request` is the request in one word, as the client's methods are called."""

    status: int
    text: str
    headers: Mapping[str, str]
    request: str = ""

    @property
    def json(self) -> Any:
        return orjson.loads(self.text)


@dataclass
class Client:
    """One task of an import. `front` is `<scheme>://<host>:<port>`; `base` is what URLs are built from now.

    `pause` are the seconds between two tries, by the loop's time. `seen` are all answers, in their order; `listener`
    is told of each when it has arrived.
    """

    session: aiohttp.ClientSession
    front: str
    task: str
    cluster: int = 7
    size: int = 0
    pause: float = _PAUSE
    tries: int = _TRIES
    base: str = ""
    hops: int = 0
    seen: list[Heard] = field(default_factory=list)
    listener: Callable[[Heard], None] = lambda _: None

    def __post_init__(self) -> None:
        self.base = self.front

    # --- a whole life --------------------------------------------------------------------------------------------

    async def run(self, chunks: Sequence[bytes] = (b"rows",), writer: int = 1) -> dict[str, Any]:
        """Init, chunks, flush, build, polls until the end; the worker's last word. Raises ImportFailedError."""
        await self.init()
        return await self.load(chunks, writer)

    async def load(self, chunks: Sequence[bytes], writer: int = 1) -> dict[str, Any]:
        """Everything after the init."""
        for number, chunk in enumerate(chunks, start=1):
            await self.write(writer, number, chunk)
        await self.flush(writer)
        await self.build()
        return await self.finished()

    async def restart(self) -> None:
        """The program is started anew, and knows the front only."""
        self.base = self.front
        await self.exists()
        self.base = self.front
        await self.init()

    # --- its requests --------------------------------------------------------------------------------------------

    async def init(self) -> None:
        """Begins the task, or finds it begun."""
        answer = await self._followed("init", "POST", start_ts=1, commit_ts=2, data_size=self.size)
        if answer.status != 200 and not (answer.status == 400 and answer.text.strip() == "task exists"):
            raise ImportFailedError("init", answer.status, answer.text)

    async def exists(self) -> dict[str, Any]:
        """The state of the task, wherever it is."""
        answer = await self._followed("exists", "GET")
        if answer.status != 200:
            raise ImportFailedError("existence check", answer.status, answer.text)
        return dict(answer.json)

    async def write(self, writer: int, chunk: int, body: bytes) -> None:
        await self._done("write", "PUT", body, writer_id=writer, chunk_id=chunk)

    async def flush(self, writer: int) -> None:
        await self._done("flush", "POST", writer_id=writer, flush="true")

    async def build(self) -> None:
        await self._done("build", "POST", build="true", compression="zstd", split_size=1 << 26, split_keys=1 << 20)

    async def state(self) -> dict[str, Any]:
        return dict((await self._done("state", "GET")).json)

    async def cancel(self) -> None:
        await self._done("cancel", "DELETE")

    async def finished(self) -> dict[str, Any]:
        """Polls until the task has ended."""
        while True:
            state = await self.state()
            if state.get("error"):
                raise ImportFailedError("task", 200, str(state["error"]))
            if state.get("finished") or state.get("canceled"):
                return state
            await asyncio.sleep(_POLL_EVERY)

    # --- how it asks ---------------------------------------------------------------------------------------------

    async def _followed(self, request: str, method: str, **more: object) -> Heard:
        while True:
            answer = await self._asked(request, method, b"", more)
            if answer.status != 302:
                return answer
            self.hops += 1
            self.base = answer.headers["Location"].removesuffix(SUFFIX)

    async def _done(self, request: str, method: str, body: bytes = b"", **more: object) -> Heard:
        answer = await self._asked(request, method, body, more)
        if answer.status != 200:
            raise ImportFailedError(request, answer.status, answer.text)
        return answer

    async def _asked(self, request: str, method: str, body: bytes, more: Mapping[str, object]) -> Heard:
        """The first answer that is not to be repeated, or the last of all."""
        url = f"{self.base}{SUFFIX}?" + urlencode({"cluster_id": self.cluster, "task_id": self.task, **more})
        answer = Heard(0, "never answered", {}, request)
        for _ in range(self.tries):
            try:
                answer = await self._once(request, method, url, body)
            except (aiohttp.ClientError, OSError):
                pass
            else:
                if answer.status not in _REPEATED:
                    break
            await asyncio.sleep(self.pause)
        return answer

    async def _once(self, request: str, method: str, url: str, body: bytes) -> Heard:
        async with self.session.request(method, url, data=body, allow_redirects=False) as answer:
            heard = Heard(answer.status, await answer.text(), answer.headers.copy(), request)
        self.seen.append(heard)
        self.listener(heard)
        return heard
