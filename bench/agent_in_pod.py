"""`python -m bench.agent_in_pod NODE SERVER ACCOUNT ENDPOINT INTERVAL`: the agent with the client that it has in a pod.

Only where the service account's files are is different from `ebbtide agent` in a pod.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path

from ebbtide.agent.main import Orders, run
from ebbtide.kube.slim import SlimClient
from ebbtide.service import log
from ebbtide.service.listening import bind
from ebbtide.service.program import execute
from ebbtide.vocabulary import SIGNAL_TAINT_KEY


def command(node: str, server: str, account: Path, endpoint: str, interval: float) -> tuple[str, ...]:
    """The arguments of a Python interpreter that runs it."""
    return ("-m", __name__, node, server, str(account), endpoint, str(interval))


async def agent(arguments: list[str], stopping: asyncio.Event) -> None:
    node, server, account, endpoint, interval = arguments
    orders = Orders(node, SIGNAL_TAINT_KEY, endpoint, float(interval), "127.0.0.1", 0)
    with bind(orders.host, orders.port) as listening:
        await run(orders, SlimClient(server, Path(account), "ebbtide-agent/bench"), listening, stopping)


if __name__ == "__main__":
    log.configure("info", "json")
    execute(partial(agent, sys.argv[1:]))
