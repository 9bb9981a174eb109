"""The command line: every failure is one clear message and the promised exit code."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ebbtide.cli.commands import COMMANDS
from ebbtide.cli.main import main
from tests.ebbtide.cli.commands import kubeconfig

ROOT = Path(__file__).resolve().parents[3]


def run(*words: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`python -m ebbtide` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ebbtide", *words],
        cwd=ROOT,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def test_wrong_arguments_and_configuration_end_with_2_and_no_traceback(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[webhook]\ndrain = 'soon'\ndrian = 1\n")
    ended = run("config", "check", str(wrong))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("ebbtide: configuration cannot be used, 2 problems:\n  webhook.drian is not ")
    assert "Traceback" not in ended.stderr


def test_a_key_that_is_not_to_be_cleaned_up_ends_with_2_before_anything_is_asked(tmp_path: Path) -> None:
    """Nothing answers at that address."""
    somewhere = str(kubeconfig(tmp_path, "http://127.0.0.1:9"))
    ended = run("cleanup", "--kubeconfig", somewhere, "--taint-key", "node.kubernetes.io/unschedulable")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("ebbtide: --taint-key 'node.kubernetes.io/unschedulable': ")


def test_a_good_configuration_ends_with_0(tmp_path: Path) -> None:
    good = tmp_path / "good.toml"
    good.write_text("[webhook]\ndrain = 3\n")
    ended = run("config", "check", str(good))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{good}: fine\n", "")


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """`ebbtide config show | head -1`, with the reader gone before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "ebbtide", "config", "show"],
            cwd=ROOT,
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (141, "")


def test_an_interrupt_ends_a_command_quietly(tmp_path: Path) -> None:
    """The command is held in the middle of its work by a pipe that nobody writes to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "ebbtide", "config", "check", str(pipe)]
    with (
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running,
        pipe.open("wb"),
    ):
        running.send_signal(signal.SIGINT)
        said = running.communicate()
    assert (running.returncode, *said) == (130, b"", b"")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "ebbtide: error: the following arguments are required: COMMAND"),
        (["confg"], "ebbtide: error: argument COMMAND: there is no 'confg'; the nearest is 'config' (of reconciler,"),
        (["recon"], "ebbtide: error: argument COMMAND: there is no 'recon'; the nearest is 'reconciler'"),
        (["--verbose"], "ebbtide: error: "),
        (["config"], "ebbtide config: error: the following arguments are required: ACTION"),
        (["config", "chek"], "ebbtide config: error: argument ACTION: there is no 'chek'; the nearest is 'check'"),
        (["config", "check"], "ebbtide config check: error: the following arguments are required: FILE"),
        (
            ["config", "show", "--out", "json"],
            "ebbtide config show: error: unrecognized arguments: --out json (the nearest: --output)",
        ),
        (["config", "show", "--quiet"], "ebbtide config show: error: unrecognized arguments: --quiet\n"),
        (["config", "check", "a", "b"], "ebbtide config check: error: unrecognized arguments: b\n"),
        (["status", "now"], "ebbtide status: error: unrecognized arguments: now\n"),
        (
            ["config", "show", "--output", "yaml"],
            "config show: error: argument --output: there is no 'yaml' (there are text, json, toml)",
        ),
        (["status", "--output", "jsn"], "argument --output: there is no 'jsn'; the nearest is 'json' (of table, json)"),
        (["explain", "nod", "a"], "argument KIND: there is no 'nod'; the nearest is 'node' (of "),
        (
            ["reconciler", "--log-level", "wrning"],
            "argument --log-level: there is no 'wrning'; the nearest is 'warning'",
        ),
        (["certs", "inspect", "--out", "json"], "ebbtide certs inspect: error: unrecognized arguments: --out json"),
        (["quit"], "argument COMMAND: there is no 'quit' (there are reconciler, "),
        (["preflight", "--as", "a\nb"], "ebbtide preflight: error: argument --as: 'a\\nb' is no account"),
        (["status", "--url", "http://["], "argument --url: 'http://[' is no http:// or https:// URL"),
    ],
)
def test_arguments_that_make_no_sense_say_how_to_use_it(
    words: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert message in said.err
    # The usage is that of the command that complains.
    complaint = said.err.splitlines()[-1]
    assert said.err.startswith(f"usage: {complaint.partition(': error: ')[0]} ")


def test_help_lists_exactly_the_commands_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    _, _, listed = capsys.readouterr().out.partition("COMMAND\n")
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("    ") and line[4] != " "]
    assert names == [command.name for command in COMMANDS]


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_a_help_of_its_own(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: ebbtide {command}" in capsys.readouterr().out


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out.split()[0]) == (0, "ebbtide")


def test_as_a_plugin_it_calls_itself_what_was_typed(tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-ebbtide"
    plugin.write_text("import sys\nfrom ebbtide.cli.main import main\nsys.exit(main())\n")
    ended = subprocess.run(
        [sys.executable, str(plugin), "confg"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage: kubectl ebbtide ")
