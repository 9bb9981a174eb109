"""One-shot commands as their users run them: a process, its exit code, and what it has said."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.controlplane.program import REPOSITORY, kubeconfig, write_files
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import World


@dataclass(frozen=True)
class Said:
    """How a command ended, and its two outputs."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as JSON."""
        return orjson.loads(self.out)


@asynccontextmanager
async def started(
    folder: Path, world: World, proxy: FaultProxy, *words: str, text: str = "", token: str = ""
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m ebbtide WORDS` by way of the proxy, with the configuration `text`; killed at the end if it runs.

    Without a token it runs as whom operators mostly are: somebody who may do anything.
    """
    settings = text or f'namespace = "{world.namespace}"\n'
    write_files(folder, settings, kubeconfig(world, proxy, token or world.plane.admin_token))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ebbtide", *words),
        *("--config", str(folder / "ebbtide.toml"), "--kubeconfig", str(folder / "kubeconfig")),
        cwd=REPOSITORY,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ebbtide(folder: Path, world: World, proxy: FaultProxy, *words: str, text: str = "", token: str = "") -> Said:
    """Runs the command to its end."""
    async with started(folder, world, proxy, *words, text=text, token=token) as process:
        out, err = await process.communicate()
        assert process.returncode is not None
        return Said(process.returncode, out.decode(), err.decode())
