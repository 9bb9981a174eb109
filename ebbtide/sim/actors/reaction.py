"""The loop around every actor: look when something changed or something is due, never otherwise."""

import asyncio
from collections.abc import Callable
from typing import Never

from ebbtide.sim.kinds import Kind
from ebbtide.sim.storage import Storage


async def react(storage: Storage, step: Callable[[], float | None], *kinds: Kind) -> Never:
    """Calls `step` now, after every burst of changes of these kinds, and when it is due again.

    A step does whatever there is to do and returns in how many seconds it wants to look again even if nothing changes,
    None for never. What it writes wakes it once more, so it must come to rest by itself.
    """
    changed = asyncio.Event()
    subscription = storage.subscribe(lambda _: changed.set(), *kinds, replay=False)
    try:
        while True:
            changed.clear()
            await _woken(changed, step())
    finally:
        subscription.close()


async def _woken(changed: asyncio.Event, within: float | None) -> None:
    try:
        async with asyncio.timeout(within):
            await changed.wait()
    except TimeoutError:
        return


def soonest(*waits: float | None) -> float | None:
    """The shortest of these waits, None when there is none."""
    return min((wait for wait in waits if wait is not None), default=None)
