"""Says on the replica's own pod which CAs it knows: a rotation waits for every ready replica to have said so.

The only write of the webhook, and never one that a request leads to.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from ebbtide import vocabulary
from ebbtide.kube.backoff import Backoff
from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError
from ebbtide.kube.resources import PODS

log = structlog.stdlib.get_logger(__name__)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True)
class OwnPod:
    """The pod that this process runs in."""

    namespace: str
    name: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "OwnPod | None":
        """By the downward API; None outside a pod."""
        namespace, name = environ.get("POD_NAMESPACE", ""), environ.get("POD_NAME", "")
        return cls(namespace, name) if namespace and name else None


class Witness:
    """Writes the last mark that it was told, until it is written."""

    def __init__(self, client: Client, pod: OwnPod | None) -> None:
        self._client = client
        self._pod = pod
        self._mark = ""
        self._told = asyncio.Event()

    def tell(self, mark: str) -> None:
        if mark != self._mark:
            self._mark = mark
            self._told.set()

    async def run(self) -> None:
        """For ever."""
        pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            await self._told.wait()
            self._told.clear()
            if self._pod is None:
                continue
            try:
                await self._write(self._pod, self._mark)
                pauses.reset()
            except KubeError as error:
                log.warning("cannot say which CAs are known", problem=str(error))
                self._told.set()
                await asyncio.sleep(pauses.next())

    async def _write(self, pod: OwnPod, mark: str) -> None:
        body = {"metadata": {"annotations": {vocabulary.CA_SEEN_ANNOTATION: mark}}}
        await self._client.patch_merge(PODS, pod.name, body, namespace=pod.namespace)
