"""Where the webhook gets its pair from: the Secret, through the API, or a mounted directory.

Both sources give only pairs that have been checked. While what they find cannot be used, the pair before stays.

    source = source_of(settings.certs, namespace, client, clock, Reloads(registry))
    group.create_task(source.run())
    async for served in source.updates():
        ...                                  # load served.cert_pem and served.key_pem, annotate with served.mark
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from certs.check import Offer, Served, check
from certs.inspect import Fault
from certs.layout import offer_of
from certs.reloads import Reloads
from certs.spec import BUNDLE, CERTIFICATE, KEY, Spec, spec_of
from ebbtide.clock import Clock
from ebbtide.config.admission import Certs
from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import SECRETS
from ebbtide.kube.store import Store

log = structlog.stdlib.get_logger(__name__)

# Pairs are to be served 15 seconds after they were mounted; a look reads three small files.
_LOOK_EVERY: Final = 5.0
# What was not valid yet may be by now; the wall clock may have been set.
_JUDGE_AGAIN_EVERY: Final = 60.0
# The kubelet swaps this link when it has written a whole new version of a volume (pkg/volume/util/atomic_writer.go).
_VERSION_LINK: Final = "..data"


class Offers:
    """Judges what is found, and hands on what can be used."""

    def __init__(self, spec: Spec, clock: Clock, report: Reloads, problem: str) -> None:
        self.current: Served | None = None
        self.problem = problem
        self._spec = spec
        self._clock = clock
        self._report = report
        self._found: Offer | None = None
        self._changed = asyncio.Event()

    async def updates(self) -> AsyncIterator[Served]:
        given: Served | None = None
        while True:
            changed = self._changed
            if self.current is not None and self.current is not given:
                given = self.current
                yield given
            else:
                await changed.wait()

    def find(self, offer: Offer) -> None:
        """A pair lies there now."""
        if offer != self._found:
            self._found = offer
            self._judge(first=True)

    def miss(self, problem: str) -> None:
        """Nothing lies there."""
        if problem != self.problem:
            log.warning("no certificate", problem=problem)
        self._found, self.problem = None, problem

    async def judge_again(self) -> None:
        """For ever: what was refused may become valid with time alone."""
        while True:
            await asyncio.sleep(_JUDGE_AGAIN_EVERY)
            if self._found is not None and self.problem:
                self._judge(first=False)

    def _judge(self, *, first: bool) -> None:
        assert self._found is not None
        judged = check(self._found, self._spec, self._clock.now())
        if isinstance(judged, Fault):
            self.problem = str(judged)
            if first:
                self._report.refused(judged, serving=self.current is not None)
            return
        self.current, self.problem = judged, ""
        self._report.taken(judged.leaf, judged.authorities)
        self._changed.set()
        self._changed = asyncio.Event()


@dataclass(frozen=True, slots=True)
class _Secret:
    """What is kept of the Secret."""

    key: str
    uid: str
    resource_version: int = field(compare=False)
    offer: Offer


def _secret(raw: Mapping[str, Any]) -> _Secret:
    metadata = raw["metadata"]
    return _Secret(metadata["name"], metadata["uid"], int(metadata["resourceVersion"]), offer_of(raw))


class Source(ABC):
    """A place where the pair is looked for; `name` is what it is called as a part of a program."""

    def __init__(self, name: str, offers: Offers) -> None:
        self.name = name
        self._offers = offers

    @property
    def current(self) -> Served | None:
        """The last pair that could be used, None before there was one."""
        return self._offers.current

    @property
    def problem(self) -> str:
        """Why what is there now cannot be used, "" when it can."""
        return self._offers.problem

    def updates(self) -> AsyncIterator[Served]:
        """The current pair as soon as there is one, then each that follows; one in between may be left out."""
        return self._offers.updates()

    async def run(self) -> None:
        """Keeps looking; ends only by cancellation, or by what `on_problem` raises."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look())
            group.create_task(self._offers.judge_again())

    @abstractmethod
    async def _look(self) -> None:
        """Tells the offers what is there, again and again."""


class SecretSource(Source):
    """The pair of the Secret `namespace/name`, read through the API: new replicas need not wait for a mount."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        offers: Offers,
        on_problem: Callable[[KubeError], None] | None = None,
    ) -> None:
        super().__init__("certificate from the Secret", offers)
        self._missing = f"Secret {namespace}/{name} does not exist"
        self._store: Store[_Secret] = Store(_secret)
        self._store.subscribe(self._told)
        self._reflector = Reflector(
            client,
            SECRETS,
            self._store,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            on_problem=on_problem,
        )

    async def _look(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run())
            group.create_task(self._tell_missing())

    async def _tell_missing(self) -> None:
        await self._store.wait_synced()
        if not len(self._store):
            self._offers.miss(self._missing)

    def _told(self, _old: _Secret | None, new: _Secret | None) -> None:
        if new is None:
            self._offers.miss(self._missing)
        else:
            self._offers.find(new.offer)


class FileSource(Source):
    """The pair in a mounted directory, watched by its content, so that no kind of swap is missed."""

    def __init__(self, directory: Path, offers: Offers) -> None:
        super().__init__("certificate from files", offers)
        self._directory = directory

    async def _look(self) -> None:
        while True:
            try:
                self._offers.find(read_directory(self._directory))
            except OSError as error:
                self._offers.miss(f"{error.filename or self._directory}: {error.strerror or error}")
            await asyncio.sleep(_LOOK_EVERY)


def source_of(
    certs: Certs,
    namespace: str,
    client: Client,
    clock: Clock,
    report: Reloads,
    on_problem: Callable[[KubeError], None] | None = None,
) -> Source:
    """The source that the settings name. `on_problem` is told every failed request; what it raises ends the source."""
    spec = spec_of(certs, namespace)
    if certs.mode == "files":
        directory = Path(certs.directory)
        return FileSource(directory, Offers(spec, clock, report, f"{directory} has not been read yet"))
    offers = Offers(spec, clock, report, f"Secret {namespace}/{certs.secret_name} has not been read yet")
    return SecretSource(client, namespace, certs.secret_name, offers, on_problem)


def read_directory(directory: Path) -> Offer:
    """The pair and its CA, of one version also while the kubelet swaps it. Raises OSError. The CA may be missing."""
    with suppress(OSError):
        directory = (directory / _VERSION_LINK).resolve(strict=True)
    bundle = directory / BUNDLE
    return Offer(
        (directory / CERTIFICATE).read_bytes(),
        (directory / KEY).read_bytes(),
        bundle.read_bytes() if bundle.exists() else b"",
    )
