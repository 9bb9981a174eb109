"""The embedded cluster with leaders that keep certificates, replicas that serve them, and API servers that call.

Leaders run the controller as the reconciler does, each over a wire of its own, so that it can be killed as `kill -9`
does it. API servers hear of a changed caBundle a second later. `Calls` says at every change whether a call would fail.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from certs.check import Served
from certs.consult import Consult, here
from certs.inspect import Certificate, Fault, certificates, date_fault, issuer_of
from certs.layout import Found, read
from certs.look import Answer, Question
from certs.reloads import Reloads
from certs.watch import source_of
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, node_facts
from ebbtide.service.connection import StoreAges
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.kinds import MUTATING_WEBHOOKS, PODS, SECRETS
from ebbtide.sim.storage import Write
from ebbtide.sim.stored import Object
from ebbtide.sim.time import SimulatedClock, simulate
from ebbtide.vocabulary import CA_SEEN_ANNOTATION, CERTS_ROTATE_ANNOTATION
from reconciler.certificates import wiring
from reconciler.engine.beside import running
from reconciler.engine.context import Context
from reconciler.engine.shared import Shared
from tests.simulation.wiretap import Journal, Request, Wiretap
from tests.waiting import OFTEN, until

NAMESPACE = "ebbtide-system"
SECRET = "ebbtide-webhook-tls"
SECRET_PATH = f"/api/v1/namespaces/{NAMESPACE}/secrets"
WEBHOOK_PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/*"
SOMEBODY = Write("somebody-else")
# How long after a change of a caBundle API servers go on with the one before.
HEARD_AFTER = 1.0
_LABELS = CellLabels("group", "zone")


def settings(**certs: Any) -> Settings:
    """The default configuration with some keys of `[certs]` changed."""
    section = {key.replace("_", "-"): value for key, value in certs.items()}
    return Settings.model_validate({"namespace": NAMESPACE, "certs": section})


def configuration(name: str, *entries: str, labelled: bool = True) -> Object:
    """A MutatingWebhookConfiguration as the chart renders it, without caBundle."""
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": {"name": name, "labels": {"ebbtide/ca-injection": "enabled"} if labelled else {}},
        "webhooks": [
            {
                "name": entry,
                "clientConfig": {"service": {"namespace": NAMESPACE, "name": "ebbtide-webhook", "path": "/mutate"}},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 3,
            }
            for entry in entries or ("pods.webhook.ebbtide",)
        ],
    }


class Leader:
    """One process that leads from its start to its end; `consult` is who answers what it has `asked`."""

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.tap = Wiretap(world.cluster, name, world.journal)
        self.registry = CollectorRegistry()
        self.alive = True
        self.asked: list[Question] = []
        self.consult: Consult = here
        client = Client(self.tap.access(), field_manager="ebbtide-reconciler", user_agent=name)
        permitted = client.permitted(lambda: self.alive)
        ages = StoreAges(self.registry)
        self._shared = Shared(permitted, world.cluster.clock, name, ages, dry_run=False)
        context = Context(
            settings=world.settings,
            client=permitted,
            shared=self._shared,
            ages=ages,
            nodes=Store(lambda raw: node_facts(raw, _LABELS)),
            registry=self.registry,
            clock=world.cluster.clock,
            namespace=NAMESPACE,
            identity=name,
            deployment="",
            dry_run=False,
            consult=self._consult,
        )
        self.controller = wiring.build(context)
        self.task = asyncio.ensure_future(self._run(client))

    async def _run(self, client: Client) -> None:
        async with client, running(self._shared.parts):
            await self.controller.run()

    async def _consult(self, question: Question) -> Answer:
        self.asked.append(question)
        return await self.consult(question)

    def kill(self) -> None:
        """From now on nothing leaves it."""
        self.alive = False
        self.tap.cut()
        self.task.cancel()

    async def close(self) -> None:
        self.kill()
        with suppress(asyncio.CancelledError):
            await self.task
        await self.tap.close()


class Replica:
    """One webhook pod: serves the last pair that it was given, and says on its pod what it knows."""

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.served: Served | None = None
        self.registry = CollectorRegistry()
        self._world = world
        clock = world.cluster.clock
        self.client = Client(world.cluster.access(), field_manager="ebbtide-webhook", user_agent=name)
        self.source = source_of(world.settings.certs, NAMESPACE, self.client, clock, Reloads(self.registry))
        labels = {"app.kubernetes.io/name": "ebbtide", "app.kubernetes.io/component": "webhook"}
        world.cluster.create(objects.pod(name, namespace=NAMESPACE, node="n", labels=labels))
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        async with self.client, asyncio.TaskGroup() as group:
            group.create_task(self.source.run())
            async for served in self.source.updates():
                self.served = served
                self._annotate(served.mark)
                self._world.look()

    def _annotate(self, mark: str) -> None:
        patch = {"metadata": {"annotations": {CA_SEEN_ANNOTATION: mark}}}
        storage = self._world.cluster.storage
        storage.modify(PODS, self.name, NAMESPACE, lambda body: objects.changed(body, patch), SOMEBODY)

    async def close(self) -> None:
        """The pod goes."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@dataclass
class World:
    """`failed` are the calls that would have failed, `trusted` what API servers believe of each entry."""

    cluster: Cluster
    settings: Settings
    journal: Journal = field(init=False)
    leaders: list[Leader] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    trusted: dict[str, bytes] = field(default_factory=dict)
    most: int = 0
    made: int = 0
    changes: int = 0
    heard: int = 0
    foreign: frozenset[bytes] = frozenset({b""})
    handles: list[asyncio.TimerHandle] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = Journal(self.cluster)
        self.cluster.create(objects.namespace(NAMESPACE))
        self.cluster.storage.listen(lambda _event: self._soon(self._bundle_changed), MUTATING_WEBHOOKS)
        self.cluster.storage.listen(lambda _event: self._soon(self._count), SECRETS)

    # --- who is there -------------------------------------------------------------------------------------------

    def lead(self, name: str = "one") -> Leader:
        leader = Leader(self, name)
        self.leaders.append(leader)
        return leader

    def serve(self, name: str = "") -> Replica:
        """A further webhook pod, under the next name unless it is given one."""
        self.made += 1
        name = name or f"webhook-{self.made}"
        replica = Replica(self, name)
        self.replicas.append(replica)
        return replica

    async def stop_serving(self, replica: Replica) -> None:
        self.replicas.remove(replica)
        await replica.close()
        self.cluster.storage.delete(PODS, replica.name, NAMESPACE)

    async def close(self) -> None:
        for handle in self.handles:
            handle.cancel()
        for leader in self.leaders:
            await leader.close()
        for replica in self.replicas:
            await replica.close()

    # --- what others do -----------------------------------------------------------------------------------------

    def set_bundle(self, name: str, bundle: bytes, entry: int = 0, write: Write = SOMEBODY) -> None:
        def changed(body: Object) -> Object:
            body["webhooks"][entry]["clientConfig"]["caBundle"] = b64encode(bundle).decode()
            return body

        self.cluster.storage.modify(MUTATING_WEBHOOKS, name, "", changed, write)

    def garble(self, **data: bytes) -> None:
        """Other values for keys of the Secret; `tls_crt` stands for `tls.crt`, `ca_signer_key` for `ca-signer.key`."""
        names = {key: ".".join(key.rsplit("_", 1)).replace("_", "-") for key in data}
        values = {names[key]: b64encode(value).decode() for key, value in data.items()}
        self.change_secret({"data": values})

    def change_secret(self, patch: Object) -> None:
        storage = self.cluster.storage
        storage.modify(SECRETS, SECRET, NAMESPACE, lambda body: objects.changed(body, patch), SOMEBODY)

    def ask(self, what: str) -> None:
        """What `ebbtide certs rotate` does."""
        self.change_secret({"metadata": {"annotations": {CERTS_ROTATE_ANNOTATION: what}}})

    # --- what is to be seen -------------------------------------------------------------------------------------

    @property
    def found(self) -> Found | None:
        stored = self.cluster.storage.peek(SECRETS, SECRET, NAMESPACE)
        return None if stored is None else read(stored.body)

    @property
    def step(self) -> str:
        return self.found.holding.step if self.found else ""

    def bundles(self) -> dict[str, bytes]:
        """The caBundle of every entry, as `configuration/entry`."""
        return {
            f"{stored.name}/{entry['name']}": b64decode(entry["clientConfig"].get("caBundle") or "")
            for stored in self.cluster.storage.scan(MUTATING_WEBHOOKS)
            for entry in stored.body["webhooks"]
        }

    def secret_writes(self) -> list[Request]:
        return [r for r in self.journal.requests if r.writes and r.path.startswith(SECRET_PATH)]

    def bundle_writes(self) -> list[Request]:
        return self.journal.matching("PATCH", WEBHOOK_PATH)

    @property
    def now(self) -> float:
        return self.cluster.clock.now()

    async def until(self, holds: Callable[[], object], within: float = 60.0) -> float:
        """Waits, looking seldom where it is for long; the seconds it took. Raises TimeoutError."""
        every = OFTEN if within <= 600 else 60.0
        return await until(holds, within, every=every, picture=lambda: f"{self.step} {self.found}")

    def served_everywhere(self) -> bool:
        """Every replica serves the Secret's leaf, and every entry has the Secret's bundle."""
        found = self.found
        if found is None:
            return False
        bundle = found.holding.listed
        pair = found.holding.leaf
        leaf = None if pair is None or isinstance(pair, Fault) else pair.certificate
        return (
            leaf is not None
            and all(replica.served is not None and replica.served.leaf == leaf for replica in self.replicas)
            and all(value == bundle for value in self.bundles().values())
        )

    # --- calls --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Would a call of any API server to any replica fail now?"""
        for entry, bundle in self.trusted.items():
            trusted = [each for each in _read(bundle) if not date_fault(each, self.now, "")]
            if bundle in self.foreign or not trusted:
                continue
            for replica in self.replicas:
                if replica.served is not None and not _verifies(replica.served, trusted, self.now):
                    self.failed.append(f"{self.cluster.clock.monotonic():.1f} s: {entry} does not trust {replica.name}")

    @staticmethod
    def _soon(do: Callable[[], None]) -> None:
        """Once the change is in the storage."""
        asyncio.get_running_loop().call_soon(do)

    def _bundle_changed(self) -> None:
        now = self.bundles()
        self.most = max([self.most, *(len(_read(bundle)) for bundle in now.values())])
        loop = asyncio.get_running_loop()
        self.changes += 1
        self.handles.append(loop.call_later(HEARD_AFTER, self._heard, self.changes, now))

    def _heard(self, change: int, bundles: dict[str, bytes]) -> None:
        """Timers of the same moment come in any order."""
        if change > self.heard:
            self.trusted, self.heard = bundles, change
            self.look()

    def _count(self) -> None:
        if self.found is not None:
            self.most = max(self.most, len(self.found.holding.authorities))


def _read(bundle: bytes) -> tuple[Certificate, ...]:
    found = certificates(bundle, "caBundle")
    return () if isinstance(found, Fault) else found


def _verifies(served: Served, trusted: Iterable[Certificate], now: float) -> bool:
    return issuer_of(served.leaf, trusted) is not None and not date_fault(served.leaf, now, "")


def play(story: Callable[[World], Coroutine[Any, Any, None]], *, seed: int = 0, **certs: Any) -> list[Any]:
    """Runs a story on simulated time; returns the log. Fails for a call that would have failed, and a third CA."""

    async def main() -> World:
        async with Cluster(seed=seed) as cluster:
            assert isinstance(cluster.clock, SimulatedClock)
            world = World(cluster, settings(**certs))
            try:
                await story(world)
            finally:
                await world.close()
            return world

    with capture_logs() as logs:
        world = simulate(main())
    assert not world.failed, world.failed[:3]
    assert world.most <= 2
    return logs
