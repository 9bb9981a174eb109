"""What all that happens in a history of imports shares: where it happens, chance, the laws, and what goes on beside."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from tests.simulation.account import Account
from tests.simulation.loads.laws import Laws
from tests.simulation.stage import Stage
from tests.simulation.workers import Site

POOL: Final = "ldw-shared"


class Course:
    """One history as it goes."""

    def __init__(self, account: Account, site: Site, laws: Laws, rng: Random) -> None:
        self.account = account
        self.site = site
        self.laws = laws
        self.rng = rng
        self.beside: list[asyncio.Task[None]] = []

    @property
    def stage(self) -> Stage:
        return self.site.stage

    def aside(self, what: Coroutine[Any, Any, None]) -> None:
        """Goes on by itself; a history does not end before it."""
        self.beside.append(asyncio.ensure_future(what))

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Does something later."""

        async def later() -> None:
            await asyncio.sleep(seconds)
            do()

        self.aside(later())

    def note(self, what: str) -> None:
        """Puts it into the diary, unless it is "": nothing has happened."""
        if what:
            self.account.diary.append(f"{self.stage.time:8.3f} {what}")
