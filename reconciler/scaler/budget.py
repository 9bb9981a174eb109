"""The one disruption budget: no pod that has, or was just promised, a task is evicted by anybody.

It selects by the label that the placements put on and take off, so it never has to change. Somebody may delete or edit
it; it is looked at again and put right.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import structlog

from ebbtide import vocabulary
from ebbtide.exclusion.fields import mapping
from ebbtide.kube.client import Client
from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import PDBS
from reconciler.engine.controller import Controller

log = structlog.stdlib.get_logger(__name__)

Key = Literal["budget"]
_KEY: Final[Key] = "budget"
NAME: Final = vocabulary.BUSY_BUDGET
LOOK_EVERY: Final = 60.0
_SELECTED: Final = {vocabulary.BUSY_LABEL: "true"}


class Budget:
    """Keeps the budget as it has to be while this process leads; in a dry run it only looks."""

    def __init__(self, client: Client, namespace: str, *, dry_run: bool) -> None:
        self.name = "worker-budget"
        self._client = client
        self._namespace = namespace
        self._dry_run = dry_run
        self._controller: Controller[Key] = Controller(
            self.name, self._look, everything=lambda: (_KEY,), resync_period=LOOK_EVERY
        )

    async def run(self) -> None:
        await self._controller.run()

    def drain(self) -> None:
        self._controller.drain()

    def longest(self) -> float:
        return self._controller.longest()

    async def _look(self, _key: Key) -> None:
        """Raises what its requests raised."""
        try:
            found = await self._client.get(PDBS, NAME, namespace=self._namespace)
        except NotFound:
            found = {}
        if _is_right(found):
            return
        if self._dry_run:
            log.info("would keep busy workers from being evicted", budget=NAME, namespace=self._namespace)
            return
        await self._client.apply(PDBS, NAME, body(self._namespace), namespace=self._namespace, force=True)
        log.info("busy workers cannot be evicted", budget=NAME, namespace=self._namespace)


def body(namespace: str) -> dict[str, Any]:
    """The object as it is applied."""
    return {
        "apiVersion": PDBS.api_version,
        "kind": PDBS.kind,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": dict(_SELECTED)}},
    }


def _is_right(found: Mapping[str, Any]) -> bool:
    spec = mapping(found, "spec")
    selector = mapping(spec, "selector")
    nothing_else = not selector.get("matchExpressions")
    return spec.get("maxUnavailable") == 0 and mapping(selector, "matchLabels") == _SELECTED and nothing_else
