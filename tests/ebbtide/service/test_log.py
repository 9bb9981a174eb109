"""Logs: one line per event, from whoever, with nothing in it that is secret or huge."""

import asyncio
import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from ebbtide.service import log


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Logging is the process's: put back what the other tests expect."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


def lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def one_line(**values: object) -> dict[str, Any]:
    output = io.StringIO()
    log.configure("info", "json", output)
    structlog.stdlib.get_logger("ebbtide.test").info("something happened", **values)
    (line,) = lines(output)
    return line


def test_a_line_says_when_how_severe_what_and_who_in_this_order() -> None:
    line = one_line(node="n1")
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert (line["level"], line["event"], line["logger"], line["node"]) == (
        "info",
        "something happened",
        "ebbtide.test",
        "n1",
    )
    assert line["timestamp"].endswith("Z")


def test_records_of_the_standard_library_take_the_same_way() -> None:
    output = io.StringIO()
    log.configure("info", "json", output)
    logging.getLogger("aiohttp.server").warning("odd request from %s", "10.0.0.1")
    (line,) = lines(output)
    assert (line["event"], line["level"], line["logger"]) == ("odd request from 10.0.0.1", "warning", "aiohttp.server")


def test_what_is_less_severe_than_the_level_is_left_out() -> None:
    output = io.StringIO()
    log.configure("warning", "json", output)
    structlog.stdlib.get_logger("a").info("no")
    logging.getLogger("b").info("no")
    structlog.stdlib.get_logger("a").warning("yes")
    assert [line["event"] for line in lines(output)] == ["yes"]


@pytest.mark.parametrize("name", ["Authorization", "token", "client_secret", "password", "tls_private_key"])
def test_the_value_of_a_secret_is_never_shown(name: str) -> None:
    assert one_line(**{name: "hunter2"})[name] == "(not shown)"


def test_an_object_shows_as_its_size_and_not_as_its_content() -> None:
    secret = {"kind": "Secret", "data": {"tls.key": "aHVudGVyMg=="}}
    line = one_line(found=secret, body=b"aHVudGVyMg==", many=[secret, "plain"])
    assert line["found"] == "(dict, 2)"
    assert line["body"] == "(bytes, 12)"
    assert line["many"] == ["(dict, 2)", "plain"]


def test_a_long_text_is_cut() -> None:
    assert len(one_line(message="x" * 100_000)["message"]) < 1100


def test_an_exception_comes_with_its_traceback_but_without_its_variables() -> None:
    output = io.StringIO()
    log.configure("info", "json", output)
    try:
        credential = "hunter2"
        raise ValueError(f"{len(credential)} letters")
    except ValueError:
        structlog.stdlib.get_logger("a").exception("failed")
    (line,) = lines(output)
    assert "ValueError: 7 letters" in line["exception"]
    assert "hunter2" not in line["exception"].replace('credential = "hunter2"', "")


def test_warnings_are_logged() -> None:
    output = io.StringIO()
    log.configure("info", "json", output)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old interface", DeprecationWarning, stacklevel=1)
    assert "old interface" in lines(output)[0]["event"]


def test_context_that_was_bound_is_on_every_line() -> None:
    with structlog.contextvars.bound_contextvars(controller="rebalance"):
        assert one_line()["controller"] == "rebalance"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_text_for_people_and_anything_else_gets_json() -> None:
    assert log.default_format(Terminal()) == "console"
    assert log.default_format(io.StringIO()) == "json"
    output = Terminal()
    log.configure("info", None, output)
    structlog.stdlib.get_logger("a").info("something happened", node="n1")
    assert "something happened" in output.getvalue()
    assert "{" not in output.getvalue()


@pytest.mark.parametrize("below", [True, False])
def test_a_frequent_line_that_cannot_be_written_fails_nobody(below: bool) -> None:
    """A request is not refused because the reader of the log has gone."""
    output = io.TextIOWrapper(io.BytesIO()) if below else io.StringIO()
    log.configure("info", "json", output)
    tell = log.frequent("ebbtide.test")
    output.close()
    tell("admission", {"kind": "pod"})


class Counting(io.StringIO):
    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)


async def test_frequent_lines_of_one_turn_are_one_write() -> None:
    """None is lost, and those of the next turn are another."""
    output = Counting()
    log.configure("info", "json", output)
    tell = log.frequent("ebbtide.test")
    for turn in range(2):
        for number in range(3):
            tell("admission", {"turn": turn, "number": number})
        assert len(lines(output)) == 3 * turn
        await asyncio.sleep(0)
    assert [(line["turn"], line["number"]) for line in lines(output)] == [(t, n) for t in range(2) for n in range(3)]
    assert output.writes == 2


def test_without_a_loop_a_frequent_line_is_written_at_once() -> None:
    output = io.StringIO()
    log.configure("info", "json", output)
    log.frequent("ebbtide.test")("admission", {"kind": "pod"})
    (line,) = lines(output)
    assert (line["level"], line["logger"], line["event"], line["kind"]) == ("info", "ebbtide.test", "admission", "pod")
