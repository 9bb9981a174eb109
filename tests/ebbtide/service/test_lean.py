"""Programs that count their megabytes do without what they do not use."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("program", ["webhook.main", "reconciler.main", "ebbtide.agent.main"])
def test_structlog_comes_without_rich_which_is_there_for_others(program: str) -> None:
    """In a process of its own, where nothing has been imported yet."""
    code = f"import {program}, sys; print('rich' in sys.modules); import rich.console; print('rich' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "True"]
