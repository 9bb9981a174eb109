"""Output that cannot be written: a sentence and exit code 1 where it has no room, silence where its reader has gone."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from tests.ebbtide.cli.commands import ROOT, Ended, environment, kubeconfig, serving
from tests.ebbtide.cli.test_status import reconciler

MANIFEST: Final = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec: {containers: []}\n"
# With {} for a kubeconfig.
COMMANDS: Final = (
    "--version",
    "--help",
    "config check /dev/null",
    "config show",
    "config show --help",
    "demo",
    "demo --list",
    "status {}",
    "status {} --output json",
    "explain node a1 {}",
    "explain node a1 {} --output json",
    "explain pod -f MANIFEST {}",
    "preflight {}",
    "preflight {} --output json",
    "cleanup --dry-run {}",
    "cleanup --dry-run {} --output json",
    "certs inspect {}",
    "certs inspect {} --output json",
    "certs issue --directory FOLDER",
)


@pytest.fixture
def full() -> Iterator[int]:
    """A disk without room."""
    yield from _opened("/dev/full")


@pytest.fixture
def nowhere() -> Iterator[int]:
    """Takes everything."""
    yield from _opened(os.devnull)


def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
async def config(tmp_path: Path) -> AsyncIterator[Path]:
    """A kubeconfig for one node in one zone."""
    async with Cluster() as cluster:
        cluster.create(objects.namespace("ebbtide-system"), objects.node("a1", group="g", zone="a"))
        yield kubeconfig(tmp_path, await cluster.serve())


async def run(words: Sequence[str], stdout: int, stderr: int = asyncio.subprocess.PIPE) -> Ended:
    """With a buffer between the program and its output, as everywhere but in our containers."""
    extra = {name: value for name, value in environment().items() if name != "PYTHONUNBUFFERED"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ebbtide", *words), cwd=ROOT, env=extra, stdout=stdout, stderr=stderr
    )
    _, err = await process.communicate()
    return Ended(process.returncode or 0, "", (err or b"").decode())


def words_of(command: str, config: Path) -> list[str]:
    manifest = config.parent / "manifest.yaml"
    manifest.write_text(MANIFEST)
    places = {"{}": f"--kubeconfig={config}", "MANIFEST": str(manifest), "FOLDER": str(config.parent / "pair")}
    return [places.get(word, word) for word in command.split()]


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_full_disk_is_said_with_exit_code_1(command: str, config: Path, full: int) -> None:
    ended = await run(words_of(command, config), full)
    assert "Traceback" not in ended.err
    assert ended.err.splitlines()[-1] == "ebbtide: standard output cannot be written: No space left on device"
    assert ended.code == 1


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_reader_that_has_gone_ends_it_quietly(command: str, config: Path) -> None:
    """Notes for people may still stand on standard error; there is no word of the output."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = await run(words_of(command, config), writing)
    os.close(writing)
    assert not {"Traceback", "Error", "cannot be written"} & {*ended.err.split()}
    assert ended.code == 141


@pytest.mark.parametrize("command", ["config show", "--version", "status {} --output json", "cleanup --dry-run {}"])
async def test_nobody_who_can_be_told_more_is_no_failure(command: str, config: Path, nowhere: int, full: int) -> None:
    """Warnings and progress go to standard error; the answer is the same without it."""
    assert (await run(words_of(command, config), nowhere, full)).code == 0


@pytest.mark.parametrize(("command", "code"), [("quit", 2), ("config check /dev/nothing", 2), ("config show", 0)])
async def test_the_exit_code_is_the_same_where_the_message_cannot_be_written(
    command: str, code: int, nowhere: int, full: int
) -> None:
    assert (await run(command.split(), nowhere, full)).code == code


async def test_without_a_standard_output_it_says_so() -> None:
    """`ebbtide config show >&-`"""
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "ebbtide", "config", "show"),
        cwd=ROOT,
        env=environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await shell.communicate()
    assert (shell.returncode, err) == (1, b"ebbtide: standard output cannot be written: it is closed\n")


async def test_an_answer_that_cannot_be_written_is_not_asked_for_elsewhere(config: Path, full: int) -> None:
    """The reconciler has answered: the cluster would be asked in vain."""
    async with serving(reconciler) as url:
        ended = await run(["status", "--url", url, f"--kubeconfig={config}"], full)
    assert (ended.code, ended.err) == (1, "ebbtide: standard output cannot be written: No space left on device\n")
