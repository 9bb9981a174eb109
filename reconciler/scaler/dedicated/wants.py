"""Clients that wait for a worker: one entry per worker, whoever and however many wait for it.

An entry lives until the worker is ready, something refuses it, or its time is over; that a client goes away does not
end it. Instants are monotonic seconds.
"""

import asyncio
from dataclasses import dataclass, field

from reconciler.scaler.contract import Arrival, Place, Unavailable

Outcome = Place | Unavailable


def _future() -> "asyncio.Future[Outcome]":
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class Want:
    """`since` the first client waits, `asked_at` the last one came.

    `outcome` is never an exception: nobody may be there to fetch it. With `cancelled` what is made for it meanwhile is
    to go again.
    """

    arrival: Arrival
    since: float
    asked_at: float
    deadline: float
    cancelled: bool = False
    outcome: "asyncio.Future[Outcome]" = field(default_factory=_future)


class Wants:
    """By the name of the worker's set. `patience` seconds an entry lives without being asked for again."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._open: dict[str, Want] = {}

    def join(self, name: str, arrival: Arrival, now: float) -> Want:
        """The entry for that worker, made if need be; it now waits for its whole time anew."""
        want = self.get(name, now)
        if want is None:
            want = self._open[name] = Want(arrival, now, now, now + self._patience)
        want.asked_at, want.deadline = now, now + self._patience
        return want

    def get(self, name: str, now: float) -> Want | None:
        """The entry for that worker, None when nobody waits (any more)."""
        want = self._open.get(name)
        if want is not None and now >= want.deadline:
            del self._open[name]
            return None
        return want

    def answer(self, name: str, outcome: Outcome) -> None:
        """Ends the wait, if there is one."""
        want = self._open.pop(name, None)
        if want is not None and not want.outcome.done():
            want.outcome.set_result(outcome)

    def cancel(self, name: str) -> bool:
        """Ends the wait for a task that is cancelled; whether there was one."""
        want = self._open.get(name)
        if want is not None:
            want.cancelled = True
            self.answer(name, Unavailable("its task was cancelled", code="Cancelled"))
        return want is not None

    def refuse_all(self, outcome: Unavailable) -> None:
        """Ends every wait: this process does not lead any more."""
        for name in tuple(self._open):
            self.answer(name, outcome)
