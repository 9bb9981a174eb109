"""A machine without Chromium hears what to do, and no test of the page passes there."""

from pathlib import Path

import pytest

from tests.browser.chromium import VARIABLE, NoChromiumError, executable


def test_without_any_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoChromiumError, match="apt-get install chromium"):
        executable()


def test_one_that_is_named_and_cannot_be_run_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Somebody wants just that one."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "chromium"))
    with pytest.raises(NoChromiumError, match="cannot be run"):
        executable()


def test_the_one_on_the_path_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.touch(mode=0o755)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert executable() == str(program)
