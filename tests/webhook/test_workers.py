"""Several processes on one port, as their user sees them: one webhook."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.webhook.program import program
from tests.webhook.stage import until
from webhook.main import main

COUNT = 2


async def test_they_serve_as_one_and_end_in_order(tmp_path: Path) -> None:
    """Requests are answered by any of them, the metrics tell which; SIGTERM ends all with 0."""
    async with program(tmp_path, COUNT) as running:
        assert len(running.workers()) == COUNT

        async def both_have_served() -> bool:
            assert await running.admit() == "a"
            _, text = await running.probe("/metrics")
            served = re.findall(r'webhook_requests_total\{[^}]*result="mutated"[^}]*worker="(\d)"\} [1-9]', text)
            return set(served) == {"0", "1"}

        await until(both_have_served, "both workers have served")
        _, text = await running.probe("/metrics")
        assert text.count("# TYPE webhook_requests_total counter") == 1
        running.process.send_signal(signal.SIGTERM)
        assert await running.process.wait() == 0


async def test_when_one_dies_the_whole_ends(tmp_path: Path) -> None:
    """So that it never looks well with half of its strength; whoever runs it starts it again."""
    async with program(tmp_path, COUNT) as running:
        os.kill(running.workers()[0], signal.SIGKILL)
        assert await running.process.wait() == 1


async def test_workers_do_not_outlive_who_minds_them(tmp_path: Path) -> None:
    """Not even when that was killed."""
    async with program(tmp_path, COUNT) as running:
        workers = running.workers()
        running.process.kill()

        async def gone() -> bool:
            return not any(_lives(each) for each in workers)

        await until(gone, "the workers are gone")


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("count", ["0", "-1", "65", "two"])
def test_an_unusable_number_is_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--workers", count])
    assert caught.value.code == 2
    assert "no number from 1 to 64" in capsys.readouterr().err
