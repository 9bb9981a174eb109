"""The reconciler as a program, on the embedded cluster: start, lead, follow, wait, refuse, end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from ebbtide import vocabulary
from ebbtide.config import Settings, load
from ebbtide.errors import ClusterAccessError
from ebbtide.kube.client import Client
from ebbtide.service.listening import bind
from ebbtide.service.supervisor import Supervisor
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.time import simulate
from reconciler.main import Reconciler, main, run
from reconciler.needs import needs
from reconciler.place import Place
from tests.waiting import until

LOOPBACK = "127.0.0.1"
NAMESPACE = "ebbtide-system"


class Running:
    """One reconciler without its HTTP port."""

    def __init__(self, cluster: Cluster, name: str, *, dry_run: bool = False) -> None:
        self.client = Client(cluster.access(), field_manager="test", user_agent=name)
        self.program = Reconciler(Settings(), self.client, cluster.clock, Place(NAMESPACE, name), dry_run)
        self.stopping = asyncio.Event()
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        async with self.client:
            await Supervisor(self.program.health, self.stopping).run(*self.program.parts(None))

    @property
    def leads(self) -> bool:
        return self.program.registry.get_sample_value("ebbtide_leader") == 1

    @property
    def ready(self) -> bool:
        return self.program.health.readiness().good

    async def stop(self) -> None:
        self.stopping.set()
        await self.task


def play(story: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            cluster.create(*(objects.node(name, group="g", zone=name[:2]) for name in ("z1a", "z1b", "z2a")))
            await story(cluster)

    simulate(main())


@asynccontextmanager
async def running(*programs: Running) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for program in programs:
            program.task.cancel()
        await asyncio.gather(*(program.task for program in programs), return_exceptions=True)


async def holder(cluster: Cluster) -> str:
    async with Client(cluster.access(), field_manager="test", user_agent="test") as client:
        answer = await client.request(
            "GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/ebbtide-reconciler"
        )
    return str(answer.json()["spec"]["holderIdentity"]) if answer.status == 200 else "no lease"


def test_a_lone_reconciler_gets_ready_and_leads() -> None:
    async def story(cluster: Cluster) -> None:
        a = Running(cluster, "a")
        async with running(a):
            assert not a.ready
            await until(lambda: a.leads and a.ready, within=2)
            assert await holder(cluster) == "a"

    play(story)


def test_of_two_one_leads_both_are_ready_and_the_other_takes_over_when_the_first_is_stopped() -> None:
    async def story(cluster: Cluster) -> None:
        a = Running(cluster, "a")
        async with running(a):
            await until(lambda: a.leads)
            b = Running(cluster, "b")
            async with running(b):
                await until(lambda: b.ready)
                await asyncio.sleep(60)
                assert not b.leads
                await a.stop()
                await until(lambda: b.leads, within=5)
                assert await holder(cluster) == "b"

    play(story)


def test_a_stopped_reconciler_leaves_a_released_lease() -> None:
    async def story(cluster: Cluster) -> None:
        a = Running(cluster, "a")
        async with running(a):
            await until(lambda: a.leads)
            await a.stop()
            assert await holder(cluster) == ""

    play(story)


def test_a_cluster_that_is_away_is_waited_for_alive_and_not_ready() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.wire.refusing = True
        a = Running(cluster, "a")
        async with running(a):
            await asyncio.sleep(600)
            health = a.program.health
            assert health.liveness().good
            assert "refuses connections" in health.readiness().reasons["cluster"]
            cluster.wire.refusing = False
            await until(lambda: a.leads and a.ready)

    play(story)


def test_one_that_waits_for_its_cluster_can_be_stopped_at_once() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.wire.refusing = True
        a = Running(cluster, "a")
        async with running(a):
            await asyncio.sleep(30)
            before = asyncio.get_running_loop().time()
            await a.stop()
            assert asyncio.get_running_loop().time() - before < 1

    play(story)


def test_a_cluster_that_goes_away_later_costs_the_lead_and_readiness_but_not_the_life() -> None:
    async def story(cluster: Cluster) -> None:
        a = Running(cluster, "a")
        async with running(a):
            await until(lambda: a.leads and a.ready)
            cluster.wire.refusing = True
            cluster.wire.reset()
            await until(lambda: not a.leads, within=15)
            await asyncio.sleep(600)
            assert a.program.health.liveness().good
            assert "nodes" in a.program.health.readiness().reasons
            cluster.wire.refusing = False
            await until(lambda: a.leads and a.ready, within=180)

    play(story)


def test_credentials_that_are_not_accepted_end_it() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.faults.inject(Answer(401, "Unauthorized"))
        a = Running(cluster, "a")
        async with running(a):
            with pytest.raises(ClusterAccessError, match="credentials of embedded cluster"):
                await a.task

    play(story)


def test_credentials_that_are_refused_for_a_moment_do_not_end_it_but_for_good_they_do() -> None:
    async def story(cluster: Cluster) -> None:
        a = Running(cluster, "a")
        async with running(a):
            await until(lambda: a.leads)
            fault = cluster.faults.inject(Answer(401, "Unauthorized"))
            cluster.wire.reset()
            await asyncio.sleep(5)
            cluster.faults.remove(fault)
            await asyncio.sleep(120)
            assert a.leads
            cluster.faults.inject(Answer(401, "Unauthorized"))
            cluster.wire.reset()
            with pytest.raises(ClusterAccessError, match="401"):
                await a.task

    play(story)


def test_a_dry_run_writes_nothing_and_takes_no_lease() -> None:
    async def story(cluster: Cluster) -> None:
        signal = objects.taint(vocabulary.SIGNAL_TAINT_KEY, "1000000000")
        cluster.create(objects.node("z1c", group="g", zone="z1", taints=[signal]))
        a = Running(cluster, "a", dry_run=True)
        async with running(a):
            await until(lambda: a.ready)
            await asyncio.sleep(600)
            assert not a.leads
            assert await holder(cluster) == "no lease"
            writes = {verb for verb in a.client.sent if verb.verb not in ("get", "list", "watch")}
            assert {verb.resource for verb in writes} <= {"selfsubjectaccessreviews"}
            await a.stop()

    play(story)


def test_a_dry_run_does_without_all_but_nodes_pods_and_namespaces() -> None:
    """Whoever tries it need not be let near secrets."""

    async def story(cluster: Cluster) -> None:
        for plural in ("secrets", "leases", "mutatingwebhookconfigurations", "persistentvolume*"):
            cluster.faults.inject(Answer(403, "Forbidden"), When(path=f"*/{plural}*"))
        cluster.create(objects.node("z1c", group="g", zone="z1", taints=[objects.taint(vocabulary.SIGNAL_TAINT_KEY)]))
        a = Running(cluster, "a", dry_run=True)
        async with running(a):
            await until(lambda: a.ready)
            await asyncio.sleep(600)
            assert a.ready
            await a.stop()
        essential = {need.resource.plural for need in needs(Settings(), NAMESPACE, dry_run=True) if need.essential}
        assert essential <= {"nodes", "pods", "namespaces"}

    play(story)


def test_everything_it_sends_is_among_the_permissions_that_it_asks_for() -> None:
    async def story(cluster: Cluster) -> None:
        signal = objects.taint(vocabulary.SIGNAL_TAINT_KEY, "1000000000")
        a = Running(cluster, "a")
        async with running(a):
            await until(lambda: a.leads)
            cluster.create(objects.node("z1c", group="g", zone="z1", taints=[signal]))
            cluster.create(objects.pod("p", node="z1c"))
            await asyncio.sleep(120)
            await a.stop()
        asked = {
            (need.verb, need.resource.group, need.resource.plural, need.subresource)
            for need in needs(Settings(), NAMESPACE, dry_run=False)
        }
        sent = {(verb.verb, verb.group, verb.resource, verb.subresource) for verb in a.client.sent}
        assert ("patch", "", "nodes", "") in sent
        assert ("create", "", "pods", "eviction") in sent
        assert sent - asked <= {("create", "authorization.k8s.io", "selfsubjectaccessreviews", "")}

    play(story)


async def test_the_whole_program_serves_its_probes_and_metrics() -> None:
    async with Cluster() as cluster:
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        listening, stopping = bind(LOOPBACK, 0), asyncio.Event()
        url = f"http://{LOOPBACK}:{listening.getsockname()[1]}"
        program = asyncio.ensure_future(run(Settings(), cluster.access(), stopping=stopping, listening=listening))
        async with asyncio.timeout(120), aiohttp.ClientSession(url) as session:
            status = 0
            while status != 200:
                async with session.get("/readyz") as answer:
                    status = answer.status
            async with session.get("/metrics") as answer:
                assert "ebbtide_leader 1.0" in await answer.text()
            stopping.set()
            await program


def test_a_pod_stands_under_its_own_name_and_in_its_own_namespace() -> None:
    environ = {"POD_NAME": "ebbtide-0", "POD_NAMESPACE": "db"}
    place = Place.of(load(None, environ).settings, environ)
    assert (place.namespace, place.identity) == ("db", "ebbtide-0")


def test_two_processes_on_one_host_stand_under_different_names() -> None:
    first, second = Place.of(Settings(), {}), Place.of(Settings(), {})
    assert first.namespace == "ebbtide-system"
    assert first.identity != second.identity


@pytest.mark.parametrize("flag", ["--config", "--kubeconfig"])
def test_a_file_that_is_not_there_is_an_error_of_usage(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag, "/does/not/exist", "--log-format", "json"]) == 2
    assert "/does/not/exist" in capsys.readouterr().err
