"""A test that hangs does not hang the run."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
from tests.ceiling import Ceiling, add_option as pytest_addoption

def pytest_configure(config):
    config.pluginmanager.register(Ceiling(config))
"""
OTHERS = """
def test_another():
    pass
"""
HANGING = {
    "a task": """
        import asyncio

        async def deep():
            await asyncio.Event().wait()

        async def test_hangs():
            await deep()
        """,
    "a task that does not rest and is nobody's": """
        import asyncio

        async def deep():
            while True:
                await asyncio.sleep(0)

        async def test_hangs():
            task = asyncio.create_task(deep())
            await asyncio.Event().wait()
        """,
    "a callback that does not return": """
        import asyncio, time

        def deep():
            while True:
                time.sleep(0.01)

        async def test_hangs():
            asyncio.get_running_loop().call_soon(deep)
            await asyncio.Event().wait()
        """,
    "a search for counter-examples": """
        import time
        from hypothesis import given, settings, strategies

        def deep():
            while True:
                time.sleep(0.01)

        @settings(deadline=None, database=None)
        @given(strategies.integers())
        def test_hangs(number):
            deep()
        """,
    "a thread": """
        import threading

        def deep():
            threading.Event().wait()

        def test_hangs():
            other = threading.Thread(target=deep, daemon=True)
            other.start()
            other.join()
        """,
    "a fixture": """
        import asyncio, pytest

        @pytest.fixture
        async def deep():
            await asyncio.Event().wait()

        def test_hangs(deep):
            pass
        """,
    "the end of a test that has failed": """
        import asyncio, pytest

        async def deep():
            await asyncio.Event().wait()

        @pytest.fixture
        async def standing():
            yield
            await deep()

        async def test_hangs(standing):
            raise AssertionError
        """,
}
DEAF = """
import signal, time

def test_hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(3600)
"""


async def run(folder: Path, source: str, *flags: str) -> tuple[int | None, str]:
    """Exit code and words of a run of these tests, of which each part may take three seconds."""
    lines = [line.removeprefix("        ") for line in source.splitlines()]
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text("\n".join([*lines, OTHERS]))
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nceiling = 3\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--rootdir", str(folder), *flags, "."),
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


@pytest.mark.parametrize("what", HANGING)
async def test_it_fails_with_what_it_waits_for_and_the_others_are_run(what: str, tmp_path: Path) -> None:
    code, said = await run(tmp_path, HANGING[what])
    assert code == 1, said
    assert re.search(r"(FAILED|ERROR) test_it.py::test_hangs.* - Failed: not through after 3 s", said), said
    assert re.search(r'File ".*/test_it.py", line \d+, in deep', said), said
    assert "test_it.py::test_another PASSED" in said


async def test_a_process_that_does_not_hear_ends_and_its_test_is_named(tmp_path: Path) -> None:
    """As far as it is known to whoever runs it: a worker of a parallel run is replaced, and the others are run."""
    code, said = await run(tmp_path, DEAF, "--numprocesses=1")
    assert code == 1, said
    assert re.search(r"worker 'gw0' crashed while running 'test_it.py::test_hangs'", said), said
    assert re.search(r'File ".*/test_it.py", line \d+ in test_hangs', said), said
    assert "1 failed, 1 passed" in said
