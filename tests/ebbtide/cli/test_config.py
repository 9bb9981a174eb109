"""`ebbtide config` takes file and environment, and tells warnings without failing."""

import json
import sys
from pathlib import Path

import pytest

from ebbtide.cli.main import main


def test_show_prints_the_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ebbtide.toml"
    file.write_text("[webhook]\ndrain = 3\n")
    monkeypatch.setenv("EBBTIDE_CONFIG", str(file))
    monkeypatch.setenv("EBBTIDE__WEBHOOK__MAX_IN_FLIGHT", "7")
    assert main(["config", "show", "--output", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"]["webhook"]["drain"] == "3s"
    assert shown["origins"]["webhook.drain"] == {"source": "file", "name": str(file)}
    assert shown["settings"]["webhook"]["max-in-flight"] == 7


def test_a_flag_comes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ebbtide.toml"
    file.write_text("[webhook]\ndrain = 3\n")
    monkeypatch.setenv("EBBTIDE_CONFIG", str(tmp_path / "none.toml"))
    assert main(["config", "show", "--config", str(file)]) == 0
    assert str(file) in capsys.readouterr().out


def test_warnings_are_told_beside_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ebbtide.toml"
    file.write_text("[webhook]\nkeep-alive = 3\n[worker-scaler.shared-sts-config]\nworker-num = 0\n")
    assert main(["config", "check", str(file)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{file}: fine, with 2 warnings\n"
    assert [line.split()[:2] for line in said.err.splitlines()] == [
        ["warning:", "webhook.keep-alive"],
        ["warning:", "worker-scaler.shared-sts-config"],
    ]


def test_a_file_that_is_not_there_is_a_message_and_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none.toml"
    assert main(["config", "check", str(missing)]) == 2
    assert capsys.readouterr().err == f"ebbtide: {missing}: cannot be read: No such file or directory\n"


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("http://localhost:4566/1/q", "signals.sqs.region must be set: http://localhost:4566/1/q does not say"),
        ("https://sqs.eu-central-1.amazonaws.com/1/q", "but aiobotocore is not installed: pip install 'ebbtide[sqs]'"),
    ],
)
def test_a_queue_that_the_reconciler_could_not_read_is_said_beforehand(
    queue: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the reconciler's words, and with its exit code."""
    monkeypatch.setitem(sys.modules, "aiobotocore.config", None)
    monkeypatch.delitem(sys.modules, "reconciler.signals.queue", raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "ebbtide.toml"
    file.write_text(f'[signals.sqs]\nqueue-url = "{queue}"\n')
    assert main(["config", "check", str(file)]) == 2
    said = capsys.readouterr()
    assert (words in said.err, said.out) == (True, "")


def test_a_queue_that_the_reconciler_can_read_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ebbtide.toml"
    file.write_text('[signals.sqs]\nqueue-url = "https://sqs.eu-central-1.amazonaws.com/1/q"\n')
    assert main(["config", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: fine\n"
