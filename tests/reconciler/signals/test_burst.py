"""Messages by the thousand. `make test` sends as many as fit into its time; `EBBTIDE_BURST` says how many."""

import os
from pathlib import Path

from tests.reconciler.signals.burst import GARBAGE_EVERY, burst

MESSAGES = int(os.environ.get("EBBTIDE_BURST", "1000"))
# What a Python process moves by on its own: pools of the allocator, buffers of connections.
MAY_GROW_BY = 8.0


async def test_a_burst_with_garbage_in_it_is_told_whole(tmp_path: Path, queues: str) -> None:
    """Every valid message has tainted its node once, all garbage is where the queue puts poison, memory stays flat."""
    outcome = await burst(queues, MESSAGES, tmp_path)
    assert (outcome.untold, outcome.told_twice) == (0, 0)
    assert outcome.dead == -(-MESSAGES // GARBAGE_EVERY)
    # The first messages bring what every later one uses again: connections, compiled patterns, caches.
    warm = outcome.memory[min(4, len(outcome.memory) - 1)]
    assert max(outcome.memory) - warm < MAY_GROW_BY, outcome.memory
