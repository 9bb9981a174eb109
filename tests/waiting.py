"""Waiting for something to be so, in whatever time the loop has."""

import asyncio
from collections.abc import Callable

# Looking ten times a second is cheap where seconds are simulated, and soon enough where they are not.
OFTEN = 0.1


async def until(
    holds: Callable[[], object],
    within: float = 60.0,
    *,
    every: float = OFTEN,
    picture: Callable[[], object] = lambda: "",
) -> float:
    """Looks every so many seconds; returns those that it took. Raises TimeoutError with the picture of how it is."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while not holds():
        if loop.time() - begun > within:
            raise TimeoutError(f"not so within {within} s: {picture()}")
        await asyncio.sleep(every)
    return loop.time() - begun
