"""Signals and exit codes, of real processes."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

PROGRAM = """
import asyncio, sys
from ebbtide.errors import ClusterAccessError, UsageError
from ebbtide.service.log import configure
from ebbtide.service.ending import exit_code
from ebbtide.service.program import execute

async def obedient(stopping):
    print("up", flush=True)
    await stopping.wait()
    print("stopping", flush=True)

async def deaf(stopping):
    await obedient(stopping)
    await asyncio.sleep(3600)

async def refused(stopping):
    raise ClusterAccessError("credentials are not accepted")

async def unusable(stopping):
    raise UsageError("no such file")

configure("error", "json")
sys.exit(exit_code("test", lambda: execute(globals()[sys.argv[1]])))
"""


@asynccontextmanager
async def started(program: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, program, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def line(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def end(process: Process) -> tuple[int | None, str]:
    _, errors = await process.communicate()
    return process.returncode, errors.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_program_in_order_with_code_0(number: signal.Signals) -> None:
    async with started("obedient") as process:
        assert await line(process) == "up"
        process.send_signal(number)
        assert await line(process) == "stopping"
        assert await end(process) == (0, "")


async def test_a_second_signal_ends_it_at_once() -> None:
    async with started("deaf") as process:
        assert await line(process) == "up"
        process.send_signal(signal.SIGTERM)
        assert await line(process) == "stopping"
        process.send_signal(signal.SIGTERM)
        assert await end(process) == (128 + signal.SIGTERM, "")


@pytest.mark.parametrize(
    ("program", "code", "message"),
    [("refused", 3, "test: credentials are not accepted\n"), ("unusable", 2, "test: no such file\n")],
)
async def test_a_failure_is_one_message_and_its_exit_code(program: str, code: int, message: str) -> None:
    async with started(program) as process:
        assert await end(process) == (code, message)
