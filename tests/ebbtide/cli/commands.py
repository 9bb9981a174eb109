"""Commands as users run them, against servers that the tests put up."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

ROOT = Path(__file__).resolve().parents[3]
# A terminal of a user's own must not shape what the tests see.
_CLEAN = {"COLUMNS", "NO_COLOR", "FORCE_COLOR", "KUBECONFIG", "EBBTIDE_CONFIG", "POD_NAMESPACE"}


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


def kubeconfig(folder: Path, server: str) -> Path:
    """A file that points at the server."""
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
        "contexts: [{name: test, context: {cluster: test, user: test}}]\n"
        f'clusters: [{{name: test, cluster: {{server: "{server}"}}}}]\n'
        "users: [{name: test, user: {token: nobody}}]\n"
    )
    return path


def environment(**extra: str) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _CLEAN}
    return {**kept, "PYTHONUNBUFFERED": "1", **extra}


async def run(*words: str, **environ: str) -> Ended:
    """`python -m ebbtide` as a process of its own, with a pipe for a terminal."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ebbtide", *words),
        cwd=ROOT,
        env=environment(**environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Ended(process.returncode or 0, out.decode(), err.decode())


@asynccontextmanager
async def serving(handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """A server on loopback that answers every request so; its URL."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()
