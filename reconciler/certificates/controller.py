"""Which events lead to a look at the certificates. There is one key: a look takes in everything."""

import asyncio
from typing import Final, Literal, Protocol

from certs.decide import LOOK_EVERY
from certs.rotate import Rotation
from reconciler.engine.controller import Again, Controller

Key = Literal["certificates"]
_KEY: Final[Key] = "certificates"


class Part(Protocol):
    """Something that runs beside the controller."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


class Certificates:
    """Keeps Secret and caBundles right while this process leads."""

    def __init__(self, rotation: Rotation, parts: tuple[Part, ...]) -> None:
        self.name = "certificates"
        self._rotation = rotation
        self._parts = parts
        # One worker: of two looks side by side one would only meet the other's writes.
        self.controller: Controller[Key] = Controller(
            self.name, self.reconcile, everything=lambda: (_KEY,), resync_period=LOOK_EVERY
        )

    async def run(self) -> None:
        """Works until drained or cancelled."""
        self._rotation.begin()
        async with asyncio.TaskGroup() as beside:
            tasks = [beside.create_task(part.run(), name=part.name) for part in self._parts]
            await self.controller.run()
            for task in tasks:
                task.cancel()

    def drain(self) -> None:
        """Begins no further look, finishes the one under way."""
        self.controller.drain()

    def longest(self) -> float:
        """Seconds for which the look under way has been running."""
        return self.controller.longest()

    def changed(self, _old: object, _new: object) -> None:
        """Something that a look depends on has changed; the handler of its stores."""
        self.controller.queue.add(_KEY)

    async def reconcile(self, _key: Key) -> Again:
        """One look. Raises what its requests raised."""
        return Again(await self._rotation.look())
