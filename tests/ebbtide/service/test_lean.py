"""Programs that count their megabytes do without what they do not use."""

import subprocess
import sys


def test_structlog_comes_without_rich_which_is_there_for_others() -> None:
    """In a process of its own, where nothing has been imported yet."""
    code = "import webhook.main, sys; print('rich' in sys.modules); import rich.console; print('rich' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "True"]
