"""The floor for anything in Python that follows nodes: one streamed watch, orjson, and a tuple per node.

`python -m bench.peers.raw_watch SERVER CA_FILE TOKEN` runs until it is killed.
"""

import asyncio
import ssl
import sys
from pathlib import Path

import aiohttp
import orjson

PATH = "/api/v1/nodes?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def command(server: str, token: str, ca_file: Path) -> tuple[str, ...]:
    """The arguments of a Python interpreter that runs it. The token is one of a throw-away cluster."""
    return ("-m", __name__, server, str(ca_file), token)


async def follow(server: str, ca_file: str, token: str) -> None:
    known: dict[str, tuple[str, int]] = {}
    trust = ssl.create_default_context(cafile=ca_file)
    headers = {"Authorization": f"Bearer {token}"}
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
        session.get(server + PATH, ssl=trust) as answer,
    ):
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                raw = orjson.loads(line)["object"]
                metadata = raw["metadata"]
                if "name" in metadata:
                    taints = len(raw["spec"].get("taints", ()))
                    known[metadata["name"]] = (metadata["resourceVersion"], taints)


if __name__ == "__main__":
    asyncio.run(follow(*sys.argv[1:4]))
