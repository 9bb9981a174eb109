"""Every request in every state, over HTTP: one table, and laws that hold for all of it."""

from collections.abc import Callable

import pytest

from ebbtide.config.scaler import WorkerScaler
from reconciler.scaler.contract import Refused, Unavailable
from tests.doubles.client import Heard
from tests.reconciler.scaler.front.laws import check
from tests.reconciler.scaler.front.stage import KNOWN, LEADER, UNKNOWN, WORKER, Stage, front, init, known, state

Situation = Callable[[Stage], None]
Request = tuple[str, str]

REQUESTS: dict[str, Request] = {
    "init known": ("POST", init(KNOWN)),
    "init new": ("POST", init(UNKNOWN)),
    "state known": ("GET", state(KNOWN)),
    "state unknown": ("GET", state(UNKNOWN)),
    "state, other cluster": ("GET", state(KNOWN, cluster=8)),
    "list": ("GET", "cluster_id=7"),
    "delete known": ("DELETE", state(KNOWN)),
    "delete unknown": ("DELETE", state(UNKNOWN)),
    "bulk": ("DELETE", "cluster_id=7&task_id_prefix=1"),
    "bulk, none": ("DELETE", "cluster_id=7&task_id_prefix=2"),
    "bulk, bad": ("DELETE", "cluster_id=7&task_id_prefix="),
    "chunk": ("PUT", f"{state(KNOWN)}&writer_id=1&chunk_id=1"),
    "flush": ("POST", f"{state(KNOWN)}&writer_id=1&flush=true"),
    "build": ("POST", f"{state(KNOWN)}&build=true&compression=zstd&split_size=1&split_keys=1"),
    "bad": ("POST", init("1-2-3")),
    "patch": ("PATCH", state(KNOWN)),
    "head": ("HEAD", state(KNOWN)),
}
REDIRECTED = {"init known", "init new", "state known", "state unknown", "state, other cluster"}
ALWAYS = {"bulk, bad": 400, "chunk": 404, "flush": 404, "build": 404, "bad": 400, "patch": 400, "head": 400}


def leads(stage: Stage) -> None:
    """Nothing else is to be said."""


def starting(stage: Stage) -> None:
    stage.desk.places[KNOWN] = known(ready=False, reason="its pod is Pending")


def undiscovered(stage: Stage) -> None:
    stage.desk.places.clear()
    stage.desk.missing = "the tasks of ldw-shared-2 have not been read yet"


def trouble(stage: Stage) -> None:
    stage.desk.trouble = Unavailable("the limit of 3 workers is reached", code="LimitReached", retry_after=7)


def refusing(stage: Stage) -> None:
    stage.desk.trouble = Refused("data size 1099511627777 exceeds max data size 1099511627776")


def at_a_front(stage: Stage) -> None:
    stage.desk.places[KNOWN] = known(address=stage.url)
    stage.desk.placing = stage.url.replace("http://", "HTTP://")


def follows(stage: Stage) -> None:
    stage.leadership.leading, stage.leadership.elsewhere = False, LEADER


def alone(stage: Stage) -> None:
    """No leader, and this replica has never led."""
    stage.leadership.leading = False
    stage.desk.places.clear()
    stage.desk.missing = "nothing has been read yet"


def lost(stage: Stage) -> None:
    """It has led until just now; nobody else does yet."""
    stage.leadership.leading = False


# Statuses in the order of `init known, init new, state known, state unknown, state of another cluster, list, delete
# known, delete unknown, bulk, bulk without a match`; None for requests to another replica, see test_follower.
TABLE: dict[Situation, list[int | None]] = {
    leads: [302, 302, 302, 404, 404, 200, 200, 404, 200, 200],
    starting: [503, 302, 503, 404, 404, 200, 200, 404, 200, 200],
    undiscovered: [503, 503, 503, 503, 503, 503, 503, 503, 503, 503],
    trouble: [503, 503, 302, 404, 404, 200, 503, 503, 503, 503],
    refusing: [400, 400, 302, 404, 404, 200, 400, 400, 400, 400],
    at_a_front: [503, 503, 503, 404, 404, 200, 200, 404, 200, 200],
    follows: [302, 302, 302, 302, 302, None, None, None, None, None],
    alone: [503, 503, 503, 503, 503, 503, 503, 503, 503, 503],
    lost: [503, 503, 302, 503, 503, 503, 503, 503, 503, 503],
}
ROWS = [
    (situation, name, status)
    for situation, statuses in TABLE.items()
    for name, status in [*zip(REQUESTS, statuses, strict=False), *ALWAYS.items()]
    if status is not None
]


async def asked(situation: Situation, request: str) -> tuple[Stage, Heard]:
    async with front(known()) as stage:
        situation(stage)
        return stage, await stage.ask(*REQUESTS[request])


@pytest.mark.parametrize(
    ("situation", "request_name", "status"), ROWS, ids=[f"{row[0].__name__}-{row[1]}" for row in ROWS]
)
async def test_every_request_has_its_answer_in_every_state(
    situation: Situation, request_name: str, status: int
) -> None:
    stage, answer = await asked(situation, request_name)
    assert answer.status == status, answer
    if request_name != "head":
        fronts = (stage.url,) if situation is follows else (stage.url, LEADER)
        check(answer, may_redirect=request_name in REDIRECTED, fronts=fronts)


async def test_the_whole_table_is_driven() -> None:
    assert len(ROWS) == len(TABLE) * len(REQUESTS) - 5


# --- what the answers say --------------------------------------------------------------------------------------------


async def test_ws_01_the_address_carries_no_query_no_slash_and_no_body() -> None:
    _, answer = await asked(leads, "init new")
    assert (answer.headers["Location"], answer.text) == (f"{WORKER}/load_data", "")
    assert answer.headers["Content-Length"] == "0"


async def test_ws_02_a_restarted_client_finds_its_import_and_the_front_never_says_that_it_exists() -> None:
    async with front(known()) as stage:
        found = [await stage.ask("GET", state()), await stage.ask("POST", init())]
        assert [(each.status, each.headers["Location"]) for each in found] == [(302, f"{WORKER}/load_data")] * 2
        assert not any("task exists" in each.text for each in found)


async def test_ws_04_new_clients_are_sent_to_the_leader_itself() -> None:
    for request in REDIRECTED:
        _, answer = await asked(follows, request)
        assert answer.headers["Location"] == f"{LEADER}/load_data"


async def test_ws_07_words_and_waits_of_the_desk_are_given_on() -> None:
    _, later = await asked(trouble, "init new")
    assert (later.text, later.headers["Retry-After"]) == ("the limit of 3 workers is reached\n", "7")
    _, never = await asked(refusing, "init new")
    assert never.text == "data size 1099511627777 exceeds max data size 1099511627776\n"


async def test_ws_77_a_list_has_the_tasks_of_its_cluster_in_the_words_of_the_protocol() -> None:
    other = known(UNKNOWN)
    async with front(known(), known(UNKNOWN, cluster=8)) as stage:
        listed = (await stage.ask("GET", "cluster_id=7")).json
        assert [entry["task-id"] for entry in listed] == [str(KNOWN)]
        assert listed[0] == {
            "task-id": str(KNOWN),
            "canceled": False,
            "finished": False,
            "error": "",
            "flushed-files": 0,
            "created-files": 0,
            "ingested-regions": 0,
            "total-kvs": 0,
            "duplicated-entries": 0,
        }
        stage.desk.places[other.task] = other
        assert len((await stage.ask("GET", "cluster_id=7")).json) == 2
        assert (await stage.ask("GET", "cluster_id=9")).json == []


async def test_ws_06_deletes_reach_the_desk_once() -> None:
    async with front(known(), known(UNKNOWN)) as stage:
        await stage.ask("DELETE", state(KNOWN))
        assert stage.desk.cancelled == [str(KNOWN)]
        await stage.ask("DELETE", "cluster_id=7&task_id_prefix=1-170")
        assert stage.desk.cancelled[1:] == [str(KNOWN), str(UNKNOWN)]


async def test_ws_10_a_cluster_of_our_own_is_asked_for() -> None:
    async with front(known(), rules=WorkerScaler(cluster_id=7)) as stage:
        assert (await stage.ask("POST", init(cluster=7))).status == 302
        for query in (init(cluster=8), init().replace("cluster_id=7&", "")):
            answer = await stage.ask("POST", query)
            assert answer.status == 400
            assert "cluster id mismatch" in answer.text


async def test_a_fault_of_the_desk_is_told_as_one_and_nothing_of_it_is_shown() -> None:
    async with front(known()) as stage:
        stage.desk.trouble = RuntimeError("secret")
        for method, query in (("POST", init()), ("DELETE", state())):
            answer = await stage.ask(method, query)
            assert (answer.status, answer.text) == (500, "internal fault\n")
        stage.desk.trouble = None
        assert (await stage.ask("POST", init())).status == 302


async def test_a_desk_that_times_out_by_itself_is_never_a_504() -> None:
    async with front() as stage:
        stage.desk.trouble = TimeoutError()
        assert (await stage.ask("POST", init())).status == 503
        assert (await stage.ask("DELETE", state())).status == 503
