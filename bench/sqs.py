"""How fast a queue is read that is kept filled, beside the fastest that the same queue and client allow.

A real reconciler reads, on an embedded cluster; every message is about another node, one of a hundred is garbage. The
peer receives and deletes with as many receivers of the same client and does nothing with what it gets. The queue is a
server of moto, which is slow: the ratio counts, and how the memory of the reconciler moves.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.figures import heading, row
from bench.setting import arguments
from reconciler.signals.controller import RECEIVERS
from reconciler.signals.queue import opened
from tests.controlplane.world import wait_until
from tests.reconciler.signals.burst import GARBAGE_EVERY, Outcome, bodies, burst, fill
from tests.reconciler.signals.sqs import CREDENTIALS, REGION, QueueOfTest, moto, new_queue, one_by_one

COMMAND = "bench.sqs"


async def measure(options: argparse.Namespace) -> None:
    print(heading(COMMAND, f"{options.messages} messages, one of {GARBAGE_EVERY} is garbage"), flush=True)
    async with moto() as server:
        with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as folder:
            product = await burst(server, options.messages, Path(folder))
    # A server of its own: moto grows slower with what it has seen.
    async with moto() as server, one_by_one(server) as way, new_queue(way, visibility=600) as queue:
        bare = await emptied(queue, bodies(options.messages))
    _print(options.messages, product, bare)


def _print(messages: int, product: Outcome, bare: float) -> None:
    print(row("reconciler", f"{messages / product.seconds:.0f} /s"))
    print(row("bare receive and delete", f"{messages / bare:.0f} /s"))
    print(row("ratio of times", f"{product.seconds / bare:.2f}"))
    print(row("nodes without their signal", str(product.untold), note="  aim: 0"))
    print(row("garbage where the queue puts poison", str(product.dead)))
    start, *later = product.memory
    print(row("memory of the reconciler before, at most, at the end", f"{start:.1f} MB"), end="")
    print(f"  {max(later):.1f}  {later[-1]:.1f}")


async def emptied(queue: QueueOfTest, messages: list[str]) -> float:
    """Seconds until bare receivers have deleted all messages, from the sending of the first."""
    loop = asyncio.get_running_loop()
    left = len(messages)

    async def receive() -> None:
        nonlocal left
        async with opened(queue.url, REGION) as connection:
            while left:
                if found := await connection.receive():
                    await connection.delete(found)
                    left -= len(found)

    async def none_left() -> bool:
        return left == 0

    begun = loop.time()
    receivers = [asyncio.ensure_future(receive()) for _ in range(RECEIVERS)]
    try:
        await fill(queue, messages, lambda: None)
        await wait_until(none_left, "all messages are deleted", seconds=1800)
        return loop.time() - begun
    finally:
        for receiver in receivers:
            receiver.cancel()
        await asyncio.gather(*receivers, return_exceptions=True)


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND)
    parser.add_argument("--messages", type=int, default=10_000, help="default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    os.environ.update(CREDENTIALS)
    asyncio.run(measure(flags().parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
