"""What a leader does: all controllers side by side for one term, and beside them what they share."""

import asyncio
from collections.abc import Iterable

import structlog

from ebbtide.errors import EbbtideError
from reconciler.engine.beside import Beside, running
from reconciler.engine.context import Runnable
from reconciler.engine.lease import Term

log = structlog.stdlib.get_logger(__name__)


class ControllerEndedError(EbbtideError):
    """A controller ended although the term goes on."""


class Leading:
    """Runs `controllers` in every term, and `beside` until the last of them is through.

    One that ends early ends the term: nothing leads with half of its work.
    """

    def __init__(self, controllers: Iterable[Runnable], beside: Iterable[Beside]) -> None:
        self._controllers = tuple(controllers)
        self._beside = tuple(beside)

    async def __call__(self, term: Term) -> None:
        """Returns when `term.stopping` is set and all have finished what they were doing.

        Raises an ExceptionGroup of what controllers, or parts beside them, raised; ControllerEndedError for a
        controller that just returned.
        """
        async with running(self._beside), asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(self._run(controller, term), name=controller.name)
            await term.stopping.wait()
            for controller in self._controllers:
                controller.drain()

    async def _run(self, controller: Runnable, term: Term) -> None:
        try:
            await controller.run()
        except Exception:  # named here, since the group that carries it on does not say whose it is
            log.exception("controller failed", controller=controller.name)
            raise
        if not term.stopping.is_set():
            raise ControllerEndedError(f"controller {controller.name} ended although nobody had stopped it")
