"""What requests ask for, and what is said of bad ones; without a network."""

from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.scaler.contract import Arrival
from reconciler.scaler.front.query import (
    PATH,
    Asked,
    Bad,
    BulkDelete,
    DataRequest,
    Delete,
    Existence,
    Init,
    Listing,
    Nowhere,
    Rules,
    parameter_at,
    read,
)
from reconciler.scaler.task import TaskId, TaskPrefix

ANY = Rules(cluster=0, max_size=1 << 40)
SEVEN = Rules(cluster=7, max_size=1 << 40)
ID = "1-170-139-0"
TASK = TaskId(1, 170, 139, 0)
INIT = {"cluster_id": "7", "task_id": ID, "start_ts": "1", "commit_ts": "2", "data_size": "5"}


def ask(method: str, parameters: dict[str, str] | str, rules: Rules = ANY) -> Asked:
    query = parameters if isinstance(parameters, str) else urlencode(parameters)
    return read(method, f"{PATH}?{query}", rules)


def why(asked: Asked) -> str:
    assert isinstance(asked, Bad), asked
    return asked.why


@pytest.mark.parametrize(
    ("method", "query", "asked"),
    [
        ("POST", urlencode(INIT), Init(Arrival(TASK, 7, 5))),
        ("POST", urlencode(dict(reversed(INIT.items()))), Init(Arrival(TASK, 7, 5))),
        ("POST", urlencode(INIT) + "&resource_group=x&future=", Init(Arrival(TASK, 7, 5))),
        ("POST", urlencode(INIT) + "&", Init(Arrival(TASK, 7, 5))),
        ("POST", urlencode(INIT | {"task_id": "1-2-3--1"}), Init(Arrival(TaskId(1, 2, 3, -1), 7, 5))),
        ("POST", urlencode(INIT).replace("-", "%2D"), Init(Arrival(TASK, 7, 5))),
        ("POST", urlencode(INIT | {"cluster_id": str(2**64 - 1)}), Init(Arrival(TASK, 2**64 - 1, 5))),
        ("GET", f"cluster_id=7&task_id={ID}", Existence(TASK, 7)),
        ("GET", f"cluster_id=7&task_id={ID}&writer_id=1", Existence(TASK, 7)),
        ("GET", "cluster_id=7", Listing(7)),
        ("DELETE", f"cluster_id=7&task_id={ID}", Delete(TASK, 7)),
        ("DELETE", "cluster_id=7&task_id_prefix=1-170", BulkDelete(TaskPrefix((1, 170)), 7)),
        ("DELETE", "cluster_id=7&task_id_prefix=1-170-", BulkDelete(TaskPrefix((1, 170)), 7)),
        ("PUT", f"cluster_id=7&task_id={ID}&writer_id=1&chunk_id=1", DataRequest()),
        ("PUT", "", DataRequest()),
        ("PUT", "task_id=..%2F&task_id=", DataRequest()),
        ("POST", urlencode(INIT) + "&writer_id=1&flush=true", DataRequest()),
        ("POST", urlencode(INIT) + "&flush=", DataRequest()),
        ("POST", f"cluster_id=7&task_id={ID}&build=true&compression=zstd&split_size=1&split_keys=1", DataRequest()),
        ("POST", "build=true&task_id=..", DataRequest()),
    ],
)
def test_each_request_is_told_from_the_others(method: str, query: str, asked: Asked) -> None:
    assert ask(method, query) == asked


@pytest.mark.parametrize("path", ["/", "/load_data/", "/load_dat", "/load_data/x", "/LOAD_DATA", "//load_data", ""])
def test_there_is_one_path(path: str) -> None:
    assert read("POST", f"{path}?{urlencode(INIT)}", ANY) == Nowhere()


@pytest.mark.parametrize("origin", ["http://front:19500", "HTTP://front", "https://[fd00::7]:19500"])
def test_a_whole_url_will_do(origin: str) -> None:
    assert read("GET", f"{origin}{PATH}?cluster_id=7", ANY) == Listing(7)
    assert read("GET", f"{origin}/?cluster_id=7&x=://a{PATH}", ANY) == Nowhere()
    assert read("GET", f"{origin}?cluster_id=7", ANY) == Nowhere()


# --- numbers ----------------------------------------------------------------------------------------------------------

NO_NUMBERS = [
    "",
    "abc",
    "-1",
    "1.5",
    " 1",
    "1 ",
    "0x1",
    "1e3",
    "+1",
    "٣",
    "²",
    "1\0",
    "1/2",
    "..",
    str(2**64),
    "9" * 5000,
]


@pytest.mark.parametrize("name", ["cluster_id", "start_ts", "commit_ts"])
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: ascii(value)[:12])
def test_a_number_that_is_none_is_refused_by_its_name(name: str, value: str) -> None:
    assert why(ask("POST", INIT | {name: value})).startswith(f"{name} ")


@pytest.mark.parametrize("name", ["cluster_id", "task_id", "start_ts", "commit_ts"])
def test_a_parameter_that_an_init_needs_is_missed_by_its_name(name: str) -> None:
    assert why(ask("POST", {key: value for key, value in INIT.items() if key != name})) == f"{name} is missing"


@pytest.mark.parametrize(
    "value", [None, "", "abc", "-1", "1.5", " 1", "+1", "٣", "²", "\uff11", "1\0", "\0", "/", "..", "0", "000"]
)
def test_ws_09_a_size_that_is_none_counts_as_nothing(value: str | None) -> None:
    parameters = {key: each for key, each in INIT.items() if key != "data_size"}
    assert ask("POST", parameters if value is None else parameters | {"data_size": value}) == Init(Arrival(TASK, 7, 0))


@pytest.mark.parametrize("value", ["%00", "5%00", "%2F", "/", "..", "..%2f..", "%D9%A3", "%C2%B2", "%ff", "%"])
def test_ws_09_a_size_is_read_from_the_bytes_of_the_request(value: str) -> None:
    """As it came, percent signs and all."""
    query = urlencode({key: each for key, each in INIT.items() if key != "data_size"})
    assert ask("POST", f"{query}&data_size={value}") == Init(Arrival(TASK, 7, 0))


@pytest.mark.parametrize("value", [str(2**64), "9" * 21, "1" + "0" * 5000])
def test_a_size_that_no_64_bits_can_hold_is_too_large_rather_than_nothing(value: str) -> None:
    text = why(ask("POST", INIT | {"data_size": value}))
    assert text.startswith(f"data size {value[:20]}")
    assert "exceeds max data size 1099511627776" in text
    assert "data_size" in text
    assert len(text) < 300


@pytest.mark.parametrize("value", [str(2**64 - 1), "0" * 100 + "5"])
def test_whatever_64_bits_can_hold_is_the_rules_affair(value: str) -> None:
    assert ask("POST", INIT | {"data_size": value}) == Init(Arrival(TASK, 7, int(value)))


# --- ids --------------------------------------------------------------------------------------------------------------

BAD_IDS = [
    "", "1-2-3", "1-2-3-4-5", "4294967296-1-1-0", "1-9223372036854775808-1-0", "a-1-1-0", "1-1-1-0/../x",
    "1-1-1-2147483648", "1-1-1-0\0", "..", "/",
    "1-1-1-٣", "\uff11-1-1-0", "1-1-1-0 ", "01-1-1-0", "1-1-1--0", "1-" * 5000,
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "rest"),
    [("POST", "&start_ts=1&commit_ts=2"), ("GET", ""), ("DELETE", "")],
    ids=["init", "get", "delete"],
)
@pytest.mark.parametrize("task", BAD_IDS, ids=lambda task: ascii(task)[:24])
def test_ws_08_a_task_id_that_could_not_be_a_name_is_refused(method: str, rest: str, task: str) -> None:
    text = why(ask(method, f"cluster_id=7&task_id={quote(task, safe='')}{rest}"))
    assert text.startswith("task_id ")
    assert len(text) < 300
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.parametrize("task", ["4294967295-9223372036854775807-1-0", "1-2-3--1", "0-0-0-0"])
def test_ws_08_ids_at_their_edges_are_taken(task: str) -> None:
    assert ask("GET", f"cluster_id=7&task_id={task}") == Existence(TaskId.parse(task), 7)


@pytest.mark.parametrize("prefix", ["", "-", "a", "1-2-3-4-5", "1--", "4294967296", "1\0", "../", "1" * 9000])
def test_ws_39_a_prefix_that_is_none_is_refused(prefix: str) -> None:
    assert why(ask("DELETE", f"cluster_id=7&task_id_prefix={quote(prefix, safe='')}")).startswith("task_id_prefix ")


def test_a_delete_says_what_of() -> None:
    assert why(ask("DELETE", "cluster_id=7")) == "task_id is missing"
    both = why(ask("DELETE", f"cluster_id=7&task_id={ID}&task_id_prefix=1"))
    assert "task_id" in both
    assert "task_id_prefix" in both


# --- clusters, repetitions, methods -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("cluster", ["8", None])
def test_ws_10_another_cluster_than_ours_is_a_mismatch(method: str, cluster: str | None) -> None:
    parameters = {key: value for key, value in INIT.items() if key != "cluster_id"}
    text = why(ask(method, parameters if cluster is None else parameters | {"cluster_id": cluster}, SEVEN))
    assert text.startswith("cluster id mismatch")
    assert "cluster_id" in text


def test_ws_10_our_own_cluster_is_none() -> None:
    assert ask("POST", INIT, SEVEN) == Init(Arrival(TASK, 7, 5))


@pytest.mark.parametrize("name", list(INIT))
@pytest.mark.parametrize("second", ["same", "other"])
def test_a_parameter_that_is_there_twice_is_refused_by_its_name(name: str, second: str) -> None:
    again = INIT[name] if second == "same" else "1-1-1-1"
    assert why(ask("POST", f"{urlencode(INIT)}&{name}={again}")) == f"{name} is given more than once"
    hidden = name.replace("_", "%5F")
    assert why(ask("POST", f"{urlencode(INIT)}&{hidden}={again}")) == f"{name} is given more than once"


@pytest.mark.parametrize("method", ["PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "FETCH", "get", "POST "])
def test_other_methods_are_refused_by_their_names(method: str) -> None:
    text = why(ask(method, INIT))
    assert method in text
    assert "DELETE, GET, POST, PUT" in text


@given(
    st.sampled_from(["GET", "POST", "DELETE", "PUT", "PATCH"]),
    st.lists(
        st.tuples(
            st.sampled_from([*INIT, "task_id_prefix", "writer_id", "chunk_id", "flush", "build", "other", ""]),
            st.text() | st.sampled_from([ID, "7", "1-170", "%", "%zz", "%00", "%ff%fe"]),
        )
    ),
    st.booleans(),
)
def test_anything_can_be_read(method: str, fields: list[tuple[str, str]], raw: bool) -> None:
    """Nothing raises, whatever comes, and what is taken is well-formed; texts stay short and plain."""
    query = "&".join(f"{name}={value if raw else quote(value)}" for name, value in fields)
    match ask(method, query):
        case Bad(text):
            assert text.isascii()
            assert len(text) < 400
        case Init(arrival):
            assert 0 <= arrival.size < 2**64
            assert TaskId.parse(str(arrival.task)) == arrival.task


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("POST /load_data?cluster_id=7&task_id=111", "task_id"),
        ("POST /load_data?cluster_id=7&task_id=1&data_si", ""),
        ("POST /load_data?cluster_id=777", "cluster_id"),
        ("POST /load_data?<script>=777", ""),
        ("POST /load_d", ""),
    ],
)
def test_a_line_that_breaks_off_does_so_in_a_parameter(line: str, name: str) -> None:
    assert parameter_at(line) == name
