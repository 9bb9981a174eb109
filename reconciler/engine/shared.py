"""What several controllers read or use: each kind is watched once per process, and only if somebody asks for it."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from ebbtide.clock import Clock
from ebbtide.kube.client import Client
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from ebbtide.kube.store import Store, Versioned
from ebbtide.model import ClaimFacts, NamespaceFacts, VolumeFacts, claim_facts, namespace_facts, volume_facts
from ebbtide.service.connection import StoreAges
from reconciler.engine.beside import Beside
from reconciler.engine.events import Recorder

T = TypeVar("T", bound=Versioned)


class Shared:
    """Stores that are made when they are first asked for, and the one recorder of events (None in a dry run).

    What was made has to be run, see `parts`; until then stores are empty and events wait.
    """

    def __init__(self, client: Client, clock: Clock, identity: str, ages: StoreAges, *, dry_run: bool) -> None:
        self._client = client
        self._ages = ages
        self.recorder = None if dry_run else Recorder(client, clock, identity)
        self._watches: list[Beside] = []

    @cached_property
    def namespaces(self) -> Store[NamespaceFacts]:
        return self._watched(NAMESPACES, namespace_facts)

    @cached_property
    def claims(self) -> Store[ClaimFacts]:
        return self._watched(PERSISTENT_VOLUME_CLAIMS, claim_facts)

    @cached_property
    def volumes(self) -> Store[VolumeFacts]:
        return self._watched(PERSISTENT_VOLUMES, volume_facts)

    def run_beside(self, *parts: Beside) -> None:
        """Has something run for as long as controllers do: what several of them need, and none of them owns."""
        self._watches.extend(parts)

    @property
    def parts(self) -> tuple[Beside, ...]:
        """What has to run while controllers do. To be asked for once all of them are built."""
        recorder = () if self.recorder is None else (self.recorder,)
        return (*recorder, *self._watches)

    def _watched(self, resource: Resource, project: Callable[[Mapping[str, Any]], T]) -> Store[T]:
        store = Store(project)
        self._watches.append(self._ages.follow(Reflector(self._client, resource, store)))
        return store
