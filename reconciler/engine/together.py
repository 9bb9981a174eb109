"""Requests that are sent at once by one reconcile.

No task group there: in Python 3.11 and 3.12 it takes a cancellation that comes in the same moment as a task's failure
for its own, and raises the failure alone. A reconcile's failure is nothing that ends its worker, so the worker would
outlive its term.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def together(parts: Iterable[Awaitable[T]]) -> list[T]:
    """The results, in the order of the parts, when all of them have ended; raises what the first failed one raised.

    A failure does not end the others. A cancellation does, and is raised whatever they end with.
    """
    outcomes = await asyncio.gather(*parts, return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
