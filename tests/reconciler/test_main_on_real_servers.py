"""The reconciler's start, lead and end on the real control plane: what only a real API server can confirm."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from ebbtide import vocabulary
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.errors import ClusterAccessError
from ebbtide.kube.client import Client
from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import LEASES
from ebbtide.service.permissions import wait_until_permitted
from reconciler.engine.lease import Elector, Term, Timing
from reconciler.engine.lease_lock import Candidacy
from reconciler.main import Reconciler
from reconciler.needs import needs
from reconciler.place import Place
from tests.controlplane.accounts import token as token_of_chart
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

NAME = "ebbtide-reconciler"
# Attempts follow each other fast, and whoever waits for the end of a lease waits in vain.
QUICK = Timing(duration=600.0, deadline=400.0, retry=0.3, drain=1.0)


async def spec(cluster: World) -> Mapping[str, Any]:
    """The lease's spec, empty without a lease."""
    try:
        lease = await cluster.client.get(LEASES, NAME, namespace=cluster.namespace)
    except NotFound:
        return {}
    found: Mapping[str, Any] = lease["spec"]
    return found


def elector(cluster: World, identity: str, namespace: str = "") -> Elector:
    return Elector(
        cluster.client, SystemClock(), Candidacy(namespace or cluster.namespace, NAME, identity, {"note": "x"}), QUICK
    )


async def lead(term: Term) -> None:
    await term.stopping.wait()


@asynccontextmanager
async def standing(*electors: Elector) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.ensure_future(candidate.run(lead)) for candidate in electors]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_api_server_takes_what_an_elector_writes_from_creation_to_release(cluster: World) -> None:
    first, second = elector(cluster, "first"), elector(cluster, "second")

    async def held_by_second() -> bool:
        return second.permit()

    async def renewed() -> bool:
        return bool((await spec(cluster))["renewTime"] != acquired["renewTime"])

    async def leads() -> bool:
        return first.permit()

    async with standing(first) as (task,):
        await cluster.wait_until(leads, "the first candidate leads")
        acquired = await spec(cluster)
        assert (acquired["holderIdentity"], acquired["leaseDurationSeconds"]) == ("first", 600)
        await cluster.wait_until(renewed, "the lease is renewed")
        async with standing(second):
            first.stop()
            await task
            await cluster.wait_until(held_by_second, "the second candidate leads")
            assert (await spec(cluster))["leaseTransitions"] == 1


async def test_a_lease_that_is_deleted_by_hand_comes_back_without_an_interruption(cluster: World) -> None:
    candidate = elector(cluster, "only")

    async def leads() -> bool:
        return candidate.permit()

    async def there() -> bool:
        return (await spec(cluster)).get("holderIdentity") == "only"

    async with standing(candidate):
        await cluster.wait_until(leads, "the candidate leads")
        await cluster.client.delete(LEASES, NAME, namespace=cluster.namespace)
        await cluster.wait_until(there, "the lease is there again")
        assert candidate.permit()


async def test_a_namespace_that_does_not_exist_is_named(cluster: World) -> None:
    candidate = elector(cluster, "only", namespace="nowhere")

    async def told() -> bool:
        return any("'nowhere' of the lease does not exist" in entry.get("problem", "") for entry in entries)

    with capture_logs() as entries:
        async with standing(candidate):
            await cluster.wait_until(told, "the log names the namespace")


def rules_for(settings: Settings, namespace: str, *, without: str = "") -> list[Mapping[str, Sequence[str]]]:
    """RBAC rules that grant what the program asks for and nothing else, but one need by its first words."""
    return [
        {
            "apiGroups": [need.resource.group],
            "resources": ["/".join(part for part in (need.resource.plural, need.subresource) if part)],
            "verbs": [need.verb],
        }
        for need in needs(settings, namespace, dry_run=False)
        if not without or not str(need).startswith(without)
    ]


def settings_of(cluster: World) -> Settings:
    return Settings(namespace=cluster.namespace, node_rebalance=NodeRebalance(node_groups=(cluster.group,)))


@asynccontextmanager
async def client_of(cluster: World, token: str) -> AsyncIterator[Client]:
    async with Client(cluster.access(token), field_manager="test", user_agent="test") as client:
        yield client


@pytest.mark.parametrize(
    "lacking",
    ["patch nodes", "create pods/eviction", "list nodes", "watch namespaces", "update leases", "get leases"],
)
async def test_without_a_permission_it_does_not_start_and_says_which(cluster: World, lacking: str) -> None:
    settings = settings_of(cluster)
    token = await cluster.account("lacking", rules_for(settings, cluster.namespace, without=lacking))
    async with client_of(cluster, token) as client:
        asked = needs(settings, cluster.namespace, dry_run=False)
        with pytest.raises(ClusterAccessError, match=f"is not permitted to: {lacking}[^;]*$"):
            await wait_until_permitted(client, asked, lambda _: None)


async def test_with_exactly_the_permissions_it_asks_for_it_does_its_work(cluster: World) -> None:
    settings = settings_of(cluster)
    token = await cluster.account("exact", rules_for(settings, cluster.namespace))
    (node, other) = await cluster.add_nodes("z1", 2)
    await cluster.add_nodes("z2", 1)
    await cluster.deployment("db", 1)
    await cluster.ready_pods("db", 1)
    async with client_of(cluster, token) as client:
        program = Reconciler(settings, client, SystemClock(), Place(cluster.namespace, "a"), dry_run=False)
        nodes, election = program.parts(None)
        tasks = [asyncio.ensure_future(part.run()) for part in (nodes, election)]
        try:
            for signalled in (node, other):
                await cluster.signal(signalled)

            async def moved() -> bool:
                (pod, *more) = await cluster.ready_pods("db", 1)
                return not more and await cluster.zone_of(pod) == "z2"

            async def tainted() -> bool:
                keys = [await cluster.taint_keys(name) for name in (node, other)]
                return all(vocabulary.PREVENT_TAINT_KEY in found for found in keys)

            await cluster.wait_until(tainted, "the zone is tainted")
            await cluster.wait_until(moved, "the pod is in the other zone")
        finally:
            assert election.stop is not None
            election.stop()
            await tasks[1]
            tasks[0].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert (await spec(cluster))["holderIdentity"] == ""


@asynccontextmanager
async def process(cluster: World, folder: Path, token: str) -> AsyncIterator[Process]:
    """`python -m reconciler` with a kubeconfig for that token."""
    access = cluster.access()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [
                    {
                        "name": "test",
                        "cluster": {"server": access.server, "certificate-authority": str(cluster.plane.ca_file)},
                    }
                ],
                "users": [{"name": "test", "user": {"token": token}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            }
        )
    )
    environment = os.environ | {
        "EBBTIDE__NAMESPACE": cluster.namespace,
        "EBBTIDE__OBSERVABILITY__LISTEN": "127.0.0.1:0",
        "POD_NAME": "the-pod",
    }
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "reconciler", "--kubeconfig", str(kubeconfig), stdout=PIPE, stderr=PIPE, env=environment
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.communicate()


async def test_a_token_that_is_not_accepted_ends_the_process_with_code_3(cluster: World, tmp_path: Path) -> None:
    async with process(cluster, tmp_path, "nonsense") as started:
        _, errors = await started.communicate()
        assert started.returncode == 3
        assert "does not accept the credentials of context test" in errors.decode()


async def test_sigterm_releases_the_lease_and_ends_the_process_with_code_0(cluster: World, tmp_path: Path) -> None:
    async def held() -> bool:
        return (await spec(cluster)).get("holderIdentity") == "the-pod"

    async with process(cluster, tmp_path, await token_of_chart(cluster, "reconciler", Settings())) as started:
        await cluster.wait_until(held, "the process leads")
        started.send_signal(signal.SIGTERM)
        await started.communicate()
        assert started.returncode == 0
        assert (await spec(cluster))["holderIdentity"] == ""
