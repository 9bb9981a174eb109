"""Which events lead to a look at the certificates. There is one key: a look takes in everything."""

from typing import Final, Literal

from certs.look import LOOK_EVERY
from certs.rotate import Rotation
from reconciler.engine.beside import Beside, running
from reconciler.engine.controller import Again, Controller

Key = Literal["certificates"]
_KEY: Final[Key] = "certificates"


class Certificates:
    """Keeps Secret and caBundles right while this process leads."""

    def __init__(self, rotation: Rotation, beside: tuple[Beside, ...]) -> None:
        self.name = "certificates"
        self._rotation = rotation
        self._beside = beside
        # One worker: of two looks side by side one would only meet the other's writes.
        self.controller: Controller[Key] = Controller(
            self.name, self.reconcile, everything=lambda: (_KEY,), resync_period=LOOK_EVERY
        )

    async def run(self) -> None:
        """Works until drained or cancelled."""
        self._rotation.begin()
        async with running(self._beside):
            await self.controller.run()

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
