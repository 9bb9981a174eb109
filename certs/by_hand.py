"""The certificates in a cluster, looked at and changed by a command instead of the leader."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from prometheus_client import CollectorRegistry

from certs import examine, layout
from certs.consult import here
from certs.decide import LEAF, Facts
from certs.examine import Examination
from certs.inspect import readable
from certs.layout import Found
from certs.live import Configuration, bundles, configuration
from certs.report import Report
from certs.rotate import Rotation, webhook_replicas
from certs.spec import spec_of
from certs.store import SecretStore, SecretVersion, secret_version
from ebbtide.cleanup.leader import leader
from ebbtide.clock import Clock
from ebbtide.config import Settings
from ebbtide.errors import EbbtideError, UsageError
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Conflict
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import MUTATING_WEBHOOKS, SECRETS
from ebbtide.kube.store import Store
from ebbtide.vocabulary import CERTS_ROTATE_ANNOTATION

_ATTEMPTS: Final = 3
# Between two looks at a rotation that is under way.
_STEP: Final = 2.0
# A leader that was asked acts within a second; one that is being replaced within half a minute.
_LEADER_WITHIN: Final = 60.0
# The steps between two rotations.
_DONE: Final = frozenset({"stable", "retiring"})

Tell = Callable[[str], None]


class ByHand:
    """One installation's certificates."""

    def __init__(self, client: Client, settings: Settings, namespace: str, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._spec = spec_of(settings.certs, namespace)
        self._namespace = namespace
        self._name = settings.certs.secret_name
        self._secrets: Store[SecretVersion] = Store(secret_version)
        self._configurations: Store[Configuration] = Store(configuration)
        self.secret = SecretStore(client, namespace, self._name, self._secrets)

    @property
    def where(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def found(self) -> Found | None:
        """The Secret, None without one. Raises KubeError."""
        raw = await self.secret.read()
        return None if raw is None else layout.read(raw)

    async def inspect(self) -> Examination:
        """What is there. Raises KubeError."""
        found = await self.found()
        selector = self._settings.certs.webhook_configuration_selector
        listed = [each async for each in self._client.list(MUTATING_WEBHOOKS, label_selector=selector)]
        configurations = [configuration(raw) for raw in listed]
        facts = Facts(
            holding=None if found is None else found.holding,
            ours=found is None or found.ours,
            live=tuple(readable(each, "caBundle") for each in bundles(configurations)),
            replicas=await webhook_replicas(self._client, self._namespace),
        )
        return examine.secret(self.where, facts, configurations, self._spec, self._clock.now())

    async def issue(self, tell: Tell, *, force: bool) -> None:
        """CA and leaf, where there are none; with `force` another leaf. Raises UsageError, EbbtideError, KubeError."""
        found = await self.found()
        if found is not None and found.ours and not force:
            raise UsageError(f"{self.where} is there already: see rotate, or --force for another leaf")
        if found is not None:
            await self.rotate(LEAF, tell)
            return
        async with self._rotation() as rotation:
            await rotation.look()
        tell(f"{self.where} made, and its CA published")

    async def rotate(self, what: str, tell: Tell) -> None:
        """Another leaf or CA: the leader is asked; where nobody leads, it is done here. Returns when it is done.

        Raises EbbtideError, KubeError.
        """
        await self._ask(what)
        leading = await leader(self._client, self._settings.leader_election, tell)
        if leading is not None:
            tell(f"{leading.identity} leads and has been asked for a new {what}")
            await self._wait_for_leader(what, tell)
            return
        tell(f"nobody leads: a new {what} is made from here")
        async with self._rotation() as rotation:
            async for found in self._looks(tell):
                if _is_done(found, what):
                    break
                await rotation.look()
        tell(_result(found))

    async def _wait_for_leader(self, what: str, tell: Tell) -> None:
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + _LEADER_WITHIN
        async for found in self._looks(tell):
            if _is_done(found, what):
                tell(_result(found))
                return
            if found.holding.request and loop.time() > patient_until:
                raise EbbtideError(f"the leader has not begun within {_LEADER_WITHIN:.0f} s; see its log")

    async def _looks(self, tell: Tell) -> AsyncIterator[Found]:
        """The Secret every other second; tells of every step."""
        told = ""
        while True:
            found = await self._ours()
            if found.holding.step != told:
                told = found.holding.step
                tell(f"step: {told}")
            yield found
            await asyncio.sleep(_STEP)

    async def _ask(self, what: str) -> None:
        for _ in range(_ATTEMPTS):
            found = await self._ours()
            version = found.metadata["resourceVersion"]
            metadata = {"resourceVersion": version, "annotations": {CERTS_ROTATE_ANNOTATION: what}}
            try:
                await self._client.patch_merge(SECRETS, self._name, {"metadata": metadata}, namespace=self._namespace)
            except Conflict:
                continue
            return
        raise EbbtideError(f"{self.where} keeps changing: try again")

    async def _ours(self) -> Found:
        found = await self.found()
        if found is None:
            raise EbbtideError(f"{self.where} does not exist: the leader makes it, or `issue`")
        if not found.ours:
            raise EbbtideError(f"{self.where} was not made by ebbtide, and is left alone")
        return found

    @asynccontextmanager
    async def _rotation(self) -> AsyncIterator[Rotation]:
        """A rotation with what it needs to know kept up to date."""
        client, certs = self._client, self._settings.certs
        rotation = Rotation(
            client,
            self.secret,
            self._configurations,
            self._spec,
            self._clock,
            Report(CollectorRegistry(), lambda _story: None),
            here,
        )
        reflector = Reflector(
            client,
            MUTATING_WEBHOOKS,
            self._configurations,
            label_selector=certs.webhook_configuration_selector,
        )
        async with asyncio.TaskGroup() as group:
            following = group.create_task(reflector.run())
            await self._configurations.wait_synced()
            yield rotation
            following.cancel()


def _is_done(found: Found, what: str) -> bool:
    return not found.holding.request and (what == LEAF or found.holding.step in _DONE)


def _result(found: Found) -> str:
    known = ", ".join(authority.short for authority in found.holding.authorities)
    return f"done; CAs in force: {known}"
