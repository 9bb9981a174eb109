"""What a connection makes of the bytes that come, whatever their order and pieces."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import pytest

from ebbtide.sim.time import simulate
from webhook.budget import Budget
from webhook.connection import REQUEST_WITHIN, Connection, Lost
from webhook.messages import JSON, Head, Reply
from webhook.serving import Connections

KEEP_ALIVE = 180.0
LARGEST = 1000
HEAD = b"POST /x?y HTTP/1.1\r\nHost: h\r\nContent-Type: Application/JSON; charset=utf-8\r\n"
BODY = b'{"a": "bcd"}'
WHOLE = HEAD + b"Empty:\r\nContent-Length: 12\r\n\r\n" + BODY
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
REFUSED = Reply(HTTPStatus.NOT_FOUND, b"not here\n", fields=b"X-Why: so\r\n", last=True)


@dataclass
class Echo:
    """A handler that answers with the body, refuses a path, and notes what happened."""

    largest: int = LARGEST
    heads: list[Head] = field(default_factory=list)
    under_way: int = 0
    lost: list[Lost] = field(default_factory=list)
    last: bool = False

    def begin(self, head: Head) -> Reply | None:
        self.heads.append(head)
        if head.target == b"/no":
            return REFUSED
        self.under_way += 1
        return None

    def answer(self, _head: Head, body: bytes) -> Reply:
        self.under_way -= 1
        if body == b"fail":
            raise LookupError(body)
        return Reply(HTTPStatus.OK, body, JSON, last=self.last)

    def abandon(self, lost: Lost) -> Reply:
        self.under_way -= 1
        self.lost.append(lost)
        return Reply(HTTPStatus.BAD_REQUEST, b"lost\n", last=True)


class Wire(asyncio.Transport):
    """The other end."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed_at: float | None = None
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert self.open
        self.sent += data

    def close(self) -> None:
        if self.open:
            self.closed_at = asyncio.get_running_loop().time()

    abort = close

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    @property
    def open(self) -> bool:
        return self.closed_at is None

    @property
    def answers(self) -> list[tuple[int, dict[str, str], bytes]]:
        """Status, headers and body of each answer."""
        found, rest = [], self.sent
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            line, *fields = head.decode().split("\r\n")
            headers = dict(each.split(": ", 1) for each in fields)
            length = int(headers.get("Content-Length", "0"))
            found.append((int(line.split()[1]), headers, rest[:length]))
            rest = rest[length:]
        return found

    @property
    def statuses(self) -> list[int]:
        return [status for status, _, _ in self.answers]


@dataclass
class Scene:
    """A connection, what it is connected to, and what is registered."""

    echo: Echo
    wire: Wire
    registered: set[Connection]
    connection: Connection

    def receive(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.data_received(piece)


class Register:
    """Knows the connections that there are."""

    def __init__(self) -> None:
        self.crowded = False
        self.known = set[Connection]()

    def begun(self, connection: Connection) -> None:
        self.known.add(connection)

    def over(self, connection: Connection) -> None:
        self.known.remove(connection)


def play(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    """In simulated time, at the very beginning of 1970."""

    async def scene() -> None:
        echo, wire, register = Echo(), Wire(), Register()
        connection = Connection(echo, register, Budget(LARGEST, 1), KEEP_ALIVE, lambda: 0.0)
        connection.connection_made(wire)
        assert register.known == {connection}
        await story(Scene(echo, wire, register.known, connection))
        connection.connection_lost(None)
        assert not register.known
        assert echo.under_way == 0

    simulate(scene())


def said(scene: Scene, *pieces: bytes) -> list[int]:
    scene.receive(*pieces)
    return scene.wire.statuses


def test_an_answer_has_all_that_http_asks_for() -> None:
    async def story(scene: Scene) -> None:
        scene.receive(WHOLE)
        ((status, headers, body),) = scene.wire.answers
        assert (status, body) == (200, BODY)
        assert headers == {
            "Content-Type": "application/json",
            "Content-Length": "12",
            "Server": "ebbtide",
            "Date": "Thu, 01 Jan 1970 00:00:00 GMT",
        }
        (head,) = scene.echo.heads
        assert (head.method, head.target, head.content_type, head.length) == (b"POST", b"/x?y", JSON, 12)
        assert scene.wire.open

    play(story)


@pytest.mark.parametrize("at", range(1, len(WHOLE)))
def test_a_request_may_come_in_any_two_pieces(at: int) -> None:
    async def story(scene: Scene) -> None:
        assert said(scene, WHOLE[:at], WHOLE[at:]) == [200]
        assert scene.wire.answers[0][2] == BODY

    play(story)


def test_requests_may_come_byte_by_byte_and_several_at_once() -> None:
    """Each has its answer, in order."""

    async def story(scene: Scene) -> None:
        for byte in WHOLE:
            scene.receive(bytes((byte,)))
        assert said(scene, WHOLE + b"\r\n" + WHOLE + WHOLE[:50], WHOLE[50:]) == [200] * 4

    play(story)


def test_a_body_in_chunks_is_put_together() -> None:
    """Trailers and extensions say nothing."""

    async def story(scene: Scene) -> None:
        scene.receive(CHUNKED + b"3;x=y\r\nabc\r\n", b"2\r\nde\r\n", b"0\r\nContent-Type: text/plain\r\n\r\n")
        assert scene.wire.answers[0][2] == b"abcde"
        assert said(scene, WHOLE) == [200, 200]

    play(story)


CLOSING = {
    "the client says so": WHOLE.replace(b"Empty:", b"Connection: close\r\nEmpty:"),
    "it is of HTTP/1.0": WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
}


@pytest.mark.parametrize("request_", CLOSING.values(), ids=CLOSING)
def test_a_connection_ends_with_the_answer_when(request_: bytes) -> None:
    async def story(scene: Scene) -> None:
        assert said(scene, request_) == [200]
        assert scene.wire.answers[0][1]["Connection"] == "close"
        assert scene.wire.closed_at == 0
        assert said(scene, b"more") == [200]

    play(story)


def test_the_handler_can_end_the_connection_too() -> None:
    async def story(scene: Scene) -> None:
        scene.echo.last = True
        assert said(scene, WHOLE) == [200]
        assert scene.wire.answers[0][1]["Connection"] == "close"
        assert scene.wire.closed_at == 0

    play(story)


def test_a_refusal_is_said_before_the_body_has_come() -> None:
    """Then what comes of it is taken for a while, so that the answer is not lost to a reset."""

    async def story(scene: Scene) -> None:
        head = WHOLE.replace(b"/x?y", b"/no")[:-6]
        assert said(scene, head) == [404]
        _, headers, body = scene.wire.answers[0]
        assert (headers["X-Why"], headers["Connection"], body) == ("so", "close", b"not here\n")
        assert scene.wire.open
        await asyncio.sleep(1)
        scene.receive(b"x" * 6)
        assert scene.wire.closed_at == 1

    play(story)


def test_a_refused_body_is_thrown_away_to_its_end_however_long_it_is() -> None:
    """Which is when the connection ends."""

    async def story(scene: Scene) -> None:
        assert said(scene, b"POST /no HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n") == [404]
        for _ in range(100):
            assert scene.wire.open
            scene.receive(b"x" * 10_000)
        assert scene.wire.closed_at == 0

    play(story)


def test_a_refused_body_that_does_not_end_is_not_waited_for() -> None:
    async def story(scene: Scene) -> None:
        assert said(scene, WHOLE.replace(b"/x?y", b"/no")[:-6]) == [404]
        await asyncio.sleep(20)
        assert scene.wire.closed_at == 5
        assert scene.wire.statuses == [404]

    play(story)


def test_an_answer_to_head_has_no_body() -> None:
    """But says how long it would be."""

    async def story(scene: Scene) -> None:
        scene.receive(b"HEAD /no HTTP/1.1\r\nHost: h\r\n\r\n")
        assert b"Content-Length: 9\r\n" in scene.wire.sent
        assert scene.wire.sent.endswith(b"\r\n\r\n")
        assert scene.wire.closed_at == 0

    play(story)


def test_who_asks_whether_to_go_on_is_told_so() -> None:
    """Unless the request is refused."""

    async def story(scene: Scene) -> None:
        asking = WHOLE.replace(b"Empty:", b"Expect: 100-Continue\r\nEmpty:")
        assert said(scene, asking[:-12]) == [100]
        assert said(scene, BODY) == [100, 200]
        assert said(scene, asking.replace(b"/x?y", b"/no")) == [100, 200, 404]

    play(story)


TOO_LARGE = {
    "in pieces": [HEAD + b"Content-Length: 1001\r\n\r\n", b"x" * 600, b"x" * 401],
    "at once": [HEAD + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001],
    "in chunks": [CHUNKED + b"258\r\n" + b"x" * 600 + b"\r\n191\r\n" + b"x" * 401 + b"\r\n0\r\n\r\n"],
}


@pytest.mark.parametrize("pieces", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_body_that_is_too_large_is_given_up_once(pieces: list[bytes]) -> None:
    async def story(scene: Scene) -> None:
        assert said(scene, *pieces) == [400]
        assert scene.echo.lost == [Lost.TOO_LARGE]
        assert scene.wire.closed_at == 0

    play(story)


def test_the_largest_body_is_taken() -> None:
    async def story(scene: Scene) -> None:
        assert said(scene, HEAD + b"Content-Length: 1000\r\n\r\n" + b"x" * 999, b"x") == [200]

    play(story)


ENDLESS = {
    "a head": [HEAD, b"X: " + b"y" * 20_000 + b"\r\n", b"Z: " + b"y" * 20_000],
    "a header": [HEAD + b"X: "] + [b"y" * 1000] * 40,
    "a target": [b"GET /"] + [b"y" * 1000] * 40,
    "trailers": [CHUNKED + b"1\r\nx\r\n0\r\n"] + [b"T: " + b"y" * 1000 + b"\r\n"] * 40,
    "a chunk's extension": [CHUNKED + b"1;"] + [b"y" * 1000] * 40,
}


@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_has_one(pieces: list[bytes]) -> None:
    """No client can fill the memory with what is no body."""

    async def story(scene: Scene) -> None:
        assert said(scene, *pieces) == [400]
        assert said(scene, b"more", WHOLE) == [400]

    play(story)


NONSENSE = {
    "no method": b"hunter2 hunter2\r\n\r\n",
    "a length that is none": HEAD + b"Content-Length: -1\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    "a length beside chunks": HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
    "another protocol": HEAD + b"Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a tunnel": b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
    "a bare line feed in a header": HEAD + b"X: a\nY: b\r\n\r\n",
    "a name with a space": HEAD + b"Content-Length : 2\r\n\r\nab",
}


@pytest.mark.parametrize("request_", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_a_400_and_nobody_is_asked(request_: bytes) -> None:
    async def story(scene: Scene) -> None:
        assert said(scene, request_, WHOLE) == [400]
        assert scene.echo.heads == []
        await asyncio.sleep(6)
        assert not scene.wire.open

    play(story)


def test_a_body_that_makes_no_sense_has_broken_off() -> None:
    async def story(scene: Scene) -> None:
        assert said(scene, CHUNKED + b"zz\r\n") == [400]
        assert scene.echo.lost == [Lost.BROKEN_OFF]

    play(story)


def test_a_client_that_goes_in_the_middle_has_broken_off() -> None:
    """Nobody is left to be told."""

    async def story(scene: Scene) -> None:
        scene.receive(WHOLE[:-1])
        assert scene.echo.under_way == 1

    play(story)


def test_a_handler_that_fails_is_a_500() -> None:
    async def story(scene: Scene) -> None:
        assert said(scene, HEAD + b"Content-Length: 4\r\n\r\nfail", WHOLE) == [500]
        assert b"fail" not in scene.wire.answers[0][2]

    play(story)


@pytest.mark.parametrize("sent", [WHOLE[:10], WHOLE[:-1]], ids=["head", "body"])
def test_a_request_has_its_time_from_its_first_byte(sent: bytes) -> None:
    """However long the connection had been quiet, and however often more comes."""

    async def story(scene: Scene) -> None:
        await asyncio.sleep(KEEP_ALIVE - 1)
        scene.receive(WHOLE)
        await asyncio.sleep(KEEP_ALIVE - 1)
        scene.receive(sent)
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(REQUEST_WITHIN - 1)
        assert scene.wire.open
        await asyncio.sleep(2)
        assert scene.wire.closed_at == begun + REQUEST_WITHIN
        assert len(scene.wire.statuses) == 2

    play(story)


def test_a_quiet_connection_has_its_time_from_its_last_answer() -> None:
    """Also when that request had come in pieces."""

    async def story(scene: Scene) -> None:
        await asyncio.sleep(100)
        scene.receive(WHOLE[:20])
        await asyncio.sleep(5)
        scene.receive(WHOLE[20:])
        await asyncio.sleep(KEEP_ALIVE + 10)
        assert scene.wire.statuses == [200]
        assert scene.wire.closed_at == 105 + KEEP_ALIVE

    play(story)


def test_who_does_not_read_is_not_read_from() -> None:
    async def story(scene: Scene) -> None:
        seen = []
        for change in (scene.connection.pause_writing, scene.connection.resume_writing):
            change()
            seen.append(scene.wire.reading)
        assert seen == [False, True]

    play(story)


@pytest.mark.parametrize(("sent", "closed"), [(b"", True), (WHOLE, True), (WHOLE[:-1], False), (b"P", False)])
def test_at_the_end_only_quiet_connections_are_closed(sent: bytes, closed: bool) -> None:
    async def story(scene: Scene) -> None:
        scene.receive(*filter(None, [sent]))
        scene.connection.close_if_quiet()
        assert scene.wire.open != closed

    play(story)


# --- large bodies -------------------------------------------------------------------------------------------------

LARGE = 200_000
LARGE_HEAD = HEAD + b"Content-Length: 200000\r\n\r\n"


class Crowd:
    """Connections that share room for one large body, for which `most_waiting` may wait."""

    def __init__(self, most_waiting: int = 9) -> None:
        self.register = Register()
        self._budget = Budget(LARGE, most_waiting)

    def scene(self) -> Scene:
        echo, wire = Echo(LARGE), Wire()
        connection = Connection(echo, self.register, self._budget, KEEP_ALIVE, lambda: 0.0)
        connection.connection_made(wire)
        return Scene(echo, wire, self.register.known, connection)


def crowd(story: Callable[[Crowd], Coroutine[Any, Any, None]], **rules: int) -> None:
    async def scene() -> None:
        await story(Crowd(**rules))

    simulate(scene())


def test_a_large_body_is_not_read_on_until_there_is_room() -> None:
    """In the order in which they came; then it is answered like any other, and the connection goes on."""

    async def story(crowd: Crowd) -> None:
        scenes = [crowd.scene() for _ in range(3)]
        for each in scenes:
            each.receive(LARGE_HEAD + b"x" * 1000)
        for number, each in enumerate(scenes):
            assert [one.wire.reading for one in scenes] == [one <= number for one in range(3)]
            each.receive(b"x" * (LARGE - 1000))
            assert len(each.wire.answers[0][2]) == LARGE
            each.receive(WHOLE)
            assert each.wire.statuses == [200, 200]
        assert all(each.echo.under_way == 0 for each in scenes)

    crowd(story)


def test_small_bodies_and_those_that_have_come_already_wait_for_nobody() -> None:
    async def story(crowd: Crowd) -> None:
        first, small, whole = crowd.scene(), crowd.scene(), crowd.scene()
        first.receive(LARGE_HEAD)
        small.receive(HEAD + b"Content-Length: 65536\r\n\r\n", b"x" * 65535)
        assert small.wire.reading
        assert said(small, b"x") == [200]
        assert said(whole, LARGE_HEAD + b"x" * LARGE) == [200]

    crowd(story)


def test_a_body_in_chunks_finds_room_for_the_largest_when_it_is_no_small_one() -> None:
    async def story(crowd: Crowd) -> None:
        first, second = crowd.scene(), crowd.scene()
        for each in (first, second):
            each.receive(CHUNKED + b"10000\r\n" + b"x" * 65536 + b"\r\n")
            assert each.wire.reading
            each.receive(b"1\r\nx\r\n1\r\n")
        assert (first.wire.reading, second.wire.reading) == (True, False)
        assert said(first, b"x\r\n0\r\n\r\n") == [200]
        assert said(second, b"x\r\n0\r\n\r\n") == [200]

    crowd(story)


def test_who_has_waited_has_all_of_its_time_once_there_is_room() -> None:
    """And when it has used it up in vain it is the turn of the next."""

    async def story(crowd: Crowd) -> None:
        first, second, third = (crowd.scene() for _ in range(3))
        for each in (first, second):
            each.receive(LARGE_HEAD)
        await asyncio.sleep(5)
        first.connection.connection_lost(None)
        await asyncio.sleep(REQUEST_WITHIN - 1)
        assert second.wire.open
        third.receive(LARGE_HEAD)
        assert not third.wire.reading
        await asyncio.sleep(2)
        assert (second.echo.lost, second.wire.closed_at) == ([Lost.TOO_SLOW], 5 + REQUEST_WITHIN)
        assert third.wire.reading

    crowd(story)


def test_who_has_waited_too_long_is_told_so() -> None:
    """What still comes of it is thrown away, so that the answer is not lost to a reset; who has room keeps it."""

    async def story(crowd: Crowd) -> None:
        first, second = crowd.scene(), crowd.scene()
        second.receive(LARGE_HEAD[:10])
        await asyncio.sleep(5)
        first.receive(LARGE_HEAD)
        second.receive(LARGE_HEAD[10:] + b"x" * 1000)
        await asyncio.sleep(REQUEST_WITHIN - 4)
        assert (second.echo.lost, second.wire.statuses) == ([Lost.NO_ROOM], [400])
        assert (second.wire.reading, second.wire.open) == (True, True)
        second.receive(b"x" * (LARGE - 1000))
        assert not second.wire.open
        assert said(first, b"x" * LARGE) == [200]

    crowd(story)


def test_too_many_do_not_even_wait() -> None:
    async def story(crowd: Crowd) -> None:
        first, second, third = (crowd.scene() for _ in range(3))
        for each in (first, second, third):
            each.receive(LARGE_HEAD)
        assert (third.echo.lost, third.wire.statuses, third.wire.reading) == ([Lost.NO_ROOM], [400], True)
        assert said(first, b"x" * LARGE) == [200]
        assert said(second, b"x" * LARGE) == [200]

    crowd(story, most_waiting=1)


def test_who_goes_while_it_waits_leaves_no_gap() -> None:
    async def story(crowd: Crowd) -> None:
        first, second, third = (crowd.scene() for _ in range(3))
        for each in (first, second, third):
            each.receive(LARGE_HEAD)
        second.connection.connection_lost(None)
        assert second.echo.lost == [Lost.BROKEN_OFF]
        assert said(first, b"x" * LARGE) == [200]
        assert said(third, b"x" * LARGE) == [200]

    crowd(story)


def test_who_reads_answers_again_is_not_read_from_before_there_is_room() -> None:
    async def story(crowd: Crowd) -> None:
        first, second = crowd.scene(), crowd.scene()
        for each in (first, second):
            each.receive(LARGE_HEAD)
        second.connection.pause_writing()
        second.connection.resume_writing()
        assert not second.wire.reading
        second.connection.pause_writing()
        assert said(first, b"x" * LARGE) == [200]
        assert not second.wire.reading
        second.connection.resume_writing()
        assert second.wire.reading

    crowd(story)


def test_while_somebody_waits_for_a_connection_an_answer_ends_one() -> None:
    async def story(crowd: Crowd) -> None:
        crowd.register.crowded = True
        scene = crowd.scene()
        assert said(scene, WHOLE) == [200]
        assert scene.wire.answers[0][1]["Connection"] == "close"
        assert not scene.wire.open

    crowd(story)


def test_who_finds_all_connections_at_work_waits_for_the_next_answer() -> None:
    """Which ends its connection; the one after it does not."""

    async def story(_scene: Scene) -> None:
        connections = Connections(Echo(), 1, KEEP_ALIVE, lambda: 0.0)
        wires: list[Wire] = []
        opened: list[Connection] = []
        while len(opened) < 257:
            wires.append(Wire())
            opened.append(connections())
            opened[-1].connection_made(wires[-1])
            opened[-1].data_received(WHOLE[:-1])
        waiting = asyncio.ensure_future(connections.room())
        await asyncio.sleep(5)
        assert not waiting.done()
        opened[3].data_received(WHOLE[-1:])
        assert [number for number, wire in enumerate(wires) if not wire.open] == [3]
        assert wires[3].answers[0][1]["Connection"] == "close"
        opened[3].connection_lost(None)
        await waiting
        opened[4].data_received(WHOLE[-1:])
        assert wires[4].open
        for connection in (*opened[:3], *opened[4:]):
            connection.connection_lost(None)

    play(story)


def test_a_connection_is_idle_unless_it_has_a_request_that_is_taken() -> None:
    async def story(scene: Scene) -> None:
        def idle_for() -> float | None:
            since = scene.connection.idle_since
            return None if since is None else asyncio.get_running_loop().time() - since

        await asyncio.sleep(3)
        assert idle_for() == 3
        scene.receive(WHOLE[:10])
        await asyncio.sleep(2)
        assert idle_for() == 2
        scene.receive(WHOLE[10:-1])
        assert idle_for() is None
        scene.receive(WHOLE[-1:])
        await asyncio.sleep(1)
        assert idle_for() == 1
        scene.receive(WHOLE.replace(b"/x?y", b"/no")[:-6])
        await asyncio.sleep(4)
        assert idle_for() == 4

    play(story)
