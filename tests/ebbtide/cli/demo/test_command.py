"""What a user meets: arguments, plain lines, exit codes, and a terminal that is left as it was found."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ebbtide.cli.main import main

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"
SHOWN = b"\x1b[?25h"


def test_list_names_every_scenario_with_a_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    zones = {"one-old-signal", "several-signals", "false-alarm", "budget", "late-node", "all-cordoned"}
    assert {*zones, "import", "burst"} == set(names)


def test_help_lists_the_scenarios_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["demo", "--help"])
    assert "false-alarm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["--scenario", "one-old-signl"], "there is no 'one-old-signl'; the nearest is 'one-old-signal' (of "),
        (["--speed", "fast"], "0.5 to 50, or max"),
        (["--speed", "1000"], "0.5 to 50, or max"),
        (["--speed", "nan"], "0.5 to 50, or max"),
        (["--output", "svg"], "plain"),
    ],
)
def test_a_wrong_argument_ends_with_2_and_says_what_is_allowed(
    wrong: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["demo", *wrong])
    assert named in capsys.readouterr().err


def test_live_output_without_a_terminal_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--output", "live"]) == 2
    assert "needs a terminal" in capsys.readouterr().err


def test_plain_output_is_dated_lines_without_colour_and_the_same_for_the_same_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    outputs = []
    for _ in range(2):
        assert main(["demo", "--scenario", "several-signals", "--seed", "3"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert "\x1b" not in outputs[0]
    assert " 0:14  ebbtide     taints a-1, a-2 and a-3\n" in outputs[0]
    assert "Without ebbtide" in outputs[0]
    assert outputs[0].count("As promised.") == 1


def test_a_load_is_accounted_for_promise_by_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--scenario", "burst"]) == 0
    out = capsys.readouterr().out
    assert "ebbtide     shared pool 0 → 1: " in out
    assert "  held    no worker goes while it has a task\n" in out
    assert "broken" not in out
    assert out.count("As promised.") == 1


def test_plain_output_can_be_played_at_a_speed(capsys: pytest.CaptureFixture[str]) -> None:
    """The same play; at which second a busy machine comes to a scene is another matter."""
    assert main(["demo", "--scenario", "false-alarm", "--output", "plain", "--speed", "50"]) == 0
    assert re.search(r"\d:\d\d  ebbtide     spot/us-east-1a open", capsys.readouterr().out)


@contextmanager
def on_terminal(*arguments: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """The command on a pseudo terminal of 80 by 24."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "ebbtide", "demo", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read(terminal: int, until: bytes | None = None) -> bytes:
    """What is written on the terminal, up to these bytes or the end."""
    seen = b""
    while until is None or until not in seen:
        try:
            seen += os.read(terminal, 65536)
        except OSError:  # the other side was closed
            break
    return seen


def test_the_live_picture_ends_by_itself_and_gives_the_terminal_back() -> None:
    with on_terminal("--scenario", "false-alarm", "--speed", "50") as (process, terminal):
        seen = read(terminal)
        assert process.wait() == 0
    assert seen.count(ENTERED) == seen.count(LEFT) == 1
    assert b"us-east-1b" in seen[seen.index(ENTERED) : seen.index(LEFT)]
    assert b"As promised." in seen[seen.index(LEFT) :]


@pytest.mark.parametrize(("scenario", "sight"), [("several-signals", b"us-east-1b"), ("import", b"lineitem")])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_picture_gives_the_terminal_back(
    number: signal.Signals, code: int, scenario: str, sight: bytes
) -> None:
    with on_terminal("--scenario", scenario) as (process, terminal):
        seen = read(terminal, until=sight)
        process.send_signal(number)
        seen += read(terminal)
        assert process.wait() == code
    assert seen.count(LEFT) == 1
    assert SHOWN in seen
    assert b"Traceback" not in seen
    assert b"Unclosed" not in seen


def test_an_encoding_without_our_characters_does_not_end_the_play() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ebbtide", "demo"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
