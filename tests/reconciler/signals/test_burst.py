"""Messages by the thousand: one, or with `make burst` ten, as `EBBTIDE_BURST` says."""

import os
from pathlib import Path

from tests.reconciler.signals.burst import GARBAGE_EVERY, burst, deep_burst

MESSAGES = int(os.environ.get("EBBTIDE_BURST", "1000"))
GARBAGE = -(-MESSAGES // GARBAGE_EVERY)
FEW = 50
# What a Python process moves by on its own: pools of the allocator, buffers of connections.
MAY_GROW_BY = 8.0
# Where no node is signalled any more. Of ten thousand messages that is a fifth of their bodies.
MAY_GROW_BY_MESSAGES = 1.0


async def test_a_burst_with_garbage_in_it_is_told_whole(tmp_path: Path, queues: str) -> None:
    """Every valid message has tainted its node once, all garbage is where the queue puts poison, memory stays flat."""
    outcome = await burst(queues, MESSAGES, tmp_path)
    assert (outcome.untold, outcome.told_twice) == (0, 0)
    assert outcome.dead == GARBAGE
    # The first messages bring what every later one uses again: connections, compiled patterns, caches.
    warm = outcome.memory[min(4, len(outcome.memory) - 1)]
    assert max(outcome.memory) - warm < MAY_GROW_BY, outcome.memory


async def test_a_queue_that_is_deep_from_the_start_is_told_whole(tmp_path: Path) -> None:
    """After a night without a leader, say: no message is deleted before its node has the signal."""
    outcome = await deep_burst(MESSAGES, tmp_path)
    assert (outcome.untold, outcome.told_twice, outcome.too_early) == (0, 0, 0)
    assert outcome.dead == GARBAGE


async def test_messages_leave_nothing_behind(tmp_path: Path) -> None:
    """Few nodes, each told again and again: what memory there is when all have their signal is enough for the rest."""
    outcome = await deep_burst(MESSAGES, tmp_path, FEW)
    assert (outcome.untold, outcome.told_twice, outcome.too_early) == (0, 0, 0)
    assert outcome.dead == GARBAGE
    warm = outcome.memory[len(outcome.memory) // 4]
    assert outcome.memory[-1] - warm < MAY_GROW_BY_MESSAGES, outcome.memory
