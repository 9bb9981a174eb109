"""The webhook as a service: every creation of a cluster passes through it, so that whatever happens it must answer."""

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from certs.inspect import Certificate
from certs.issue import Pair
from certs.layout import Holding, read
from ebbtide.kube.resources import MUTATING_WEBHOOKS, SECRETS
from tests.controlplane.creations import Creations, Window
from tests.controlplane.expectations import all_prevented
from tests.controlplane.program import in_this_process, kill_leader, process
from tests.controlplane.proxy import FaultProxy, Hold
from tests.controlplane.webhook import registrations
from tests.controlplane.webhook_service import (
    DRAIN,
    SECRET,
    Replica,
    Service,
    ask_for,
    pod_of,
    published,
    replica,
    replica_here,
    secret,
    serves,
    settings,
)
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

# How long pods are created, at least; the list of faults may take longer. `make soak` takes a minute.
SECONDS = float(os.environ.get("EBBTIDE_SOAK", "20"))
# For each fault to be over: on a busy machine a process alone needs many seconds to start.
MENDED_WITHIN = 180.0
# A signal of that age alone blocks its zone.
OLD = "1700000000"


class Installation:
    """Two replicas behind a Service, a reconciler, and what can happen to them, with `failurePolicy: Fail`."""

    def __init__(self, cluster: World, proxy: FaultProxy, folder: Path, service: Service) -> None:
        self.text = settings(cluster, webhook={"drain": DRAIN})
        self.cluster = cluster
        self.proxy = proxy
        self.folder = folder
        self.service = service
        self.names: list[str] = []
        self.wiped = Window(float("inf"))
        self.away = Window(float("inf"))
        self._running: dict[str, tuple[Replica, AsyncExitStack]] = {}

    async def start(self, name: str) -> None:
        stack = AsyncExitStack()
        await stack.enter_async_context(pod_of(self.cluster, name))
        starting = replica(self.folder / name, self.cluster, self.proxy, self.text, pod=name)
        found = await stack.enter_async_context(starting)
        self._running[name] = found, stack
        self.service.add(found)

    async def stop(self, name: str) -> None:
        """SIGTERM; it gets connections until its probes are bad."""
        found, stack = self._running.pop(name)
        assert found.process is not None
        assert await found.process.terminate() == 0, found.process.log
        self.service.remove(name)
        await stack.aclose()

    async def close(self) -> None:
        for _, stack in self._running.values():
            await stack.aclose()

    async def settled(self, step: str = "") -> None:
        """Everything that the Secret holds is published and served, and every replica is ready."""

        async def done() -> bool:
            found = await secret(self.cluster)
            if found is None or found.holding.request or step not in ("", found.holding.step):
                return False
            served = [await serves(each, self.cluster) for each, _ in self._running.values()]
            ready = set(self.service.ready()) == set(self._running)
            return all(served) and ready and await published(self.cluster, self.names)

        await self.cluster.wait_until(done, f"settled {step}", seconds=MENDED_WITHIN)

    # --- what happens to them -------------------------------------------------------------------------------------

    async def a_replica_is_replaced(self, _: Creations) -> None:
        await self.stop("webhook-0")
        await self.start("webhook-2")
        await self.settled()

    async def the_leaf_is_rotated(self, _: Creations) -> None:
        before = (await self._held()).leaf
        await ask_for(self.cluster, "leaf")
        await self.settled()
        assert (await self._held()).leaf != before

    async def the_ca_is_rotated(self, _: Creations) -> None:
        before = await self._held()
        await ask_for(self.cluster, "ca")
        await self.settled("retiring")
        after = await self._held()
        assert after.signer != before.signer
        assert isinstance(before.signer, Pair)
        assert after.old == (before.signer.certificate,)

    async def the_secret_is_garbled(self, _: Creations) -> None:
        raw = await self.cluster.client.get(SECRETS, SECRET, namespace=self.cluster.namespace)
        garbage = {"data": dict.fromkeys(raw["data"], b64encode(b"garbage").decode())}
        await self.cluster.client.patch_merge(SECRETS, SECRET, garbage, namespace=self.cluster.namespace)
        await self.settled("retiring")

    async def the_bundle_is_wiped(self, load: Creations) -> None:
        """Until it is back the API server trusts nobody, whatever we do."""
        self.wiped = Window(now())
        wipe = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        for name in self.names:
            await self.cluster.client.patch_json(MUTATING_WEBHOOKS, name, wipe)
        back = partial(published, self.cluster, self.names)
        await self.cluster.wait_until(back, "the bundle is back", seconds=MENDED_WITHIN)
        await self.settled()
        await self._going_on(load)
        self.wiped.end = now()

    async def the_watches_are_cut(self, load: Creations) -> None:
        """What happens next is seen all the same: another zone is blocked."""
        assert self.proxy.cut_streams() > 0
        nodes = await self.cluster.add_nodes("b", 1)
        await self.cluster.signal(nodes[0], value=OLD)
        await all_prevented(self.cluster, nodes)

        async def seen() -> bool:
            return "b" in load.done[-1].zones

        await self.cluster.wait_until(seen, "new pods are kept out of zone b, too", seconds=MENDED_WITHIN)

    async def the_api_server_is_restarted(self, load: Creations) -> None:
        self.away = Window(now())
        with self.proxy.roles_unknown():
            try:
                await asyncio.to_thread(self.cluster.plane.stop_api_server)
            finally:
                self.cluster.plane.start_api_server()
            await self._going_on(load)
            self.away.end = now()
            await self.settled()

    async def _held(self) -> Holding:
        found = await secret(self.cluster)
        assert found is not None
        return found.holding

    async def _going_on(self, load: Creations) -> None:
        """A creation succeeds that has begun after this."""
        since = now()

        async def created() -> bool:
            return any(each.created and each.began > since for each in load.done[-100:])

        await self.cluster.wait_until(created, "pods are created again", seconds=MENDED_WITHIN)


@asynccontextmanager
async def installed(cluster: World, proxy: FaultProxy, folder: Path) -> AsyncIterator[Installation]:
    """Zone a of the world's group is blocked, by the reconciler."""
    zone_a = await cluster.add_nodes("a", 1)
    await cluster.add_nodes("c", 1)
    await cluster.signal(zone_a[0], value=OLD)
    async with Service().serving() as service:
        installation = Installation(cluster, proxy, folder, service)
        async with process(folder / "reconciler", cluster, proxy, installation.text):
            await all_prevented(cluster, zone_a)
            try:
                for name in ("webhook-0", "webhook-1"):
                    await installation.start(name)
                async with registrations(cluster, {"url": service.url}) as installation.names:
                    await installation.settled("stable")
                    yield installation
            finally:
                await installation.close()


async def test_no_creation_fails_whatever_happens_to_the_webhook(
    tmp_path: Path, cluster: World, proxy: FaultProxy, record_property: Callable[[str, object], None]
) -> None:
    """Pods are created all the time while replicas, certificates, watches and the API server come and go: none is
    refused by us, and none is let into the blocked zone."""
    async with installed(cluster, proxy, tmp_path) as installation:
        load, faults = Creations(cluster), dict[str, Window]()
        begun = now()
        async with load.going_on():
            for fault in (
                installation.a_replica_is_replaced,
                installation.the_leaf_is_rotated,
                installation.the_ca_is_rotated,
                installation.the_secret_is_garbled,
                installation.the_bundle_is_wiped,
                installation.the_watches_are_cut,
                installation.the_api_server_is_restarted,
            ):
                faults[fault.__name__] = window = Window(now())
                await fault(load)
                window.end = now()
                await load.one_more()
            await asyncio.sleep(begun + SECONDS - now())
    record_property("creations", load.reached)
    during = {name: sum(map(window.touches, load.done)) for name, window in faults.items()}
    record_property("creations during each fault", during)
    assert len(load.done) == load.due
    assert all(during.values())

    refused = [each for each in load.done if each.refused_by_webhook]
    assert [each for each in refused if not installation.wiped.touches(each)] == []
    unanswered = [each for each in load.done if not each.created and not each.refused_by_webhook]
    assert [each for each in unanswered if not installation.away.touches(each)] == []
    created = [each for each in load.done if each.created]
    assert [each for each in created if "a" not in each.zones] == []


async def test_wh_44_five_replicas_and_five_reconcilers_that_start_at_once_agree_on_one_ca(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """On a cluster that has nothing yet. Half of them are processes; the others run here, since each takes a second of
    a processor to start."""
    text = settings(cluster)
    client = {"url": "https://127.0.0.1:1/mutate"}
    async with registrations(cluster, client) as names, AsyncExitStack() as stack:
        starting: list[Any] = [process(tmp_path / f"reconciler-{n}", cluster, proxy, text) for n in range(3)]
        starting += [replica(tmp_path / f"webhook-{n}", cluster, proxy, text) for n in range(2)]
        starting += [replica_here(tmp_path / f"here-{n}", cluster, proxy, text) for n in range(3)]
        for n in range(2):
            starting.append(in_this_process(tmp_path / f"leader-{n}", cluster, text, proxy=proxy))
        entered = [await stack.enter_async_context(each) for each in starting]
        replicas = [each for each in entered if isinstance(each, Replica)]
        assert len(replicas) == 5

        async def agreed() -> bool:
            if not await published(cluster, names):
                return False
            ready = [await each.ready() for each in replicas]
            return all(ready) and all([await serves(each, cluster) for each in replicas])

        await cluster.wait_until(agreed, "all serve a leaf of the CA that is published")
    secrets = f"/namespaces/{cluster.namespace}/secrets"
    assert [seen.status for seen in proxy.matching("POST", secrets)].count(201) == 1
    assert len(authorities_stored(cluster, proxy)) == 1


# Which write of a rotation is under way when the leader is killed, and whether the server has done what it asked:
# the Secret gets the next CA, then the time of its publication, then the leaf of it.
SECRET_WRITES = "/secrets/"
INJECTIONS = "/mutatingwebhookconfigurations/"
MOMENTS = {
    "before a next CA is stored": ("PUT", SECRET_WRITES, 0, "before"),
    "after a next CA is stored": ("PUT", SECRET_WRITES, 0, "after"),
    "with the next CA in one bundle of three": ("PATCH", INJECTIONS, 0, "after"),
    "before the publication is noted": ("PUT", SECRET_WRITES, 1, "before"),
    "before the leaf of the next CA is stored": ("PUT", SECRET_WRITES, 2, "before"),
    "after the leaf of the next CA is stored": ("PUT", SECRET_WRITES, 2, "after"),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_wh_47_a_leader_killed_in_a_ca_rotation_is_followed_by_one_that_ends_it(
    moment: str, tmp_path: Path, cluster: World, proxy: FaultProxy, second_proxy: FaultProxy
) -> None:
    """From the step that is stored: never a third CA, and the leaf of the next one is what is served in the end."""
    text = settings(cluster, certs={"overlap": "500ms"})
    method, path, skip, when = MOMENTS[moment]
    async with (
        registrations(cluster, {"url": "https://127.0.0.1:1/mutate"}) as names,
        replica_here(tmp_path / "webhook", cluster, second_proxy, text) as serving,
    ):

        async def settled(step: str) -> bool:
            found = await secret(cluster)
            if found is None or (found.holding.step, found.holding.request) != (step, ""):
                return False
            return await published(cluster, names) and await serves(serving, cluster) and await serving.ready()

        async with process(tmp_path / "first", cluster, proxy, text) as first:
            await cluster.wait_until(lambda: settled("stable"), "the first CA is served", seconds=MENDED_WITHIN)
            before = await secret(cluster)
            assert before is not None
            never = asyncio.Event()
            begun = len(proxy.matching(method, path))
            proxy.inject(Hold(**{when: never}), method=method, path=path, skip=skip)
            await ask_for(cluster, "ca")

            async def reached() -> bool:
                assert first.process.returncode is None, "\n".join(first.log)
                arrived = proxy.matching(method, path)[begun + skip :]
                return any(when == "before" or seen.status is not None for seen in arrived)

            async with in_this_process(tmp_path / "second", cluster, text, proxy=second_proxy):
                await cluster.wait_until(reached, f"the leader is at the moment {moment!r}", seconds=MENDED_WITHIN)
                await kill_leader(first, cluster)
                done = "the rotation is ended by the other one"
                await cluster.wait_until(lambda: settled("retiring"), done, seconds=MENDED_WITHIN)
        after = await secret(cluster)
        assert after is not None
        assert isinstance(before.holding.signer, Pair)
        assert after.holding.old == (before.holding.signer.certificate,)
    stored = authorities_stored(cluster, proxy) | authorities_stored(cluster, second_proxy)
    assert stored == set(after.holding.authorities)


def authorities_stored(cluster: World, proxy: FaultProxy) -> set[Certificate]:
    """Every CA with a key in what the server has accepted as the Secret of this world."""
    writes = proxy.matching("POST", f"/{cluster.namespace}/secrets") + proxy.matching("PUT", SECRET_WRITES)
    accepted = [read(orjson.loads(seen.body)).holding for seen in writes if seen.status in (200, 201)]
    slots = [slot for holding in accepted for slot in (holding.signer, holding.next)]
    return {slot.certificate for slot in slots if isinstance(slot, Pair)}


def now() -> float:
    return asyncio.get_running_loop().time()
