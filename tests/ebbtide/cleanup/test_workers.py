"""What the scaler has made goes, and what only looks like it stays."""

import asyncio
from typing import Any

import pytest

from ebbtide.cleanup.act import Account
from ebbtide.cleanup.report import counts, document, lines, succeeded
from ebbtide.cleanup.sweep import Options, Result, clean, rules_of
from ebbtide.cleanup.workers import is_ours
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.kube.resources import (
    CONFIG_MAPS,
    PDBS,
    PERSISTENT_VOLUME_CLAIMS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from ebbtide.model import CellLabels
from ebbtide.sim import objects
from ebbtide.sim.actors.ensemble import living
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.stored import Object
from ebbtide.sim.time import simulate
from reconciler.scaler.budget import body as budget
from reconciler.scaler.contract import Arrival
from reconciler.scaler.dedicated.objects import Plan
from reconciler.scaler.dedicated.objects import service as own_service
from reconciler.scaler.dedicated.objects import stateful_set as own_set
from reconciler.scaler.pods import worker_set
from reconciler.scaler.shared.ledger import name_of
from reconciler.scaler.shared.objects import design
from reconciler.scaler.shared.objects import service as pool_service
from reconciler.scaler.shared.objects import stateful_set as pool_set
from reconciler.scaler.size import Size
from reconciler.scaler.task import TaskId
from reconciler.scaler.template import read_template
from tests.reconciler.scaler.templates import NAMESPACE, template

Strings = dict[str, str]
POOL = "ldw-shared"
SETTINGS = Settings.model_validate({"worker-scaler": {"run": True}, "certs": {"mode": "files"}})
CELLS = CellLabels()
SIZE = Size(1, 1, 4, 4, 1, 20)
KINDS = (STATEFUL_SETS, SERVICES, PERSISTENT_VOLUME_CLAIMS, PDBS, CONFIG_MAPS)


def raw(
    name: str, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **more: Any
) -> Object:
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}, **more}
    return {"metadata": metadata}


D, S = {"ebbtide/pool": "dedicated"}, {"ebbtide/pool": "shared"}
SERVICE = "app.kubernetes.io/service"
TASK = {"ebbtide/task-id": "1-1-1-0"}


@pytest.mark.parametrize(
    ("kind", "body", "ours"),
    [
        (STATEFUL_SETS, raw("w", D, TASK), True),
        (STATEFUL_SETS, raw("w", D), False),
        (STATEFUL_SETS, raw("w", {}, TASK), False),
        (STATEFUL_SETS, raw("w", D, TASK, deletionTimestamp="2026-01-01T00:00:00Z"), False),
        (STATEFUL_SETS, raw(POOL, S, {"ebbtide/pool-spec": "a.b.c"}), True),
        (STATEFUL_SETS, raw(POOL, S), False),
        (SERVICES, raw("w", {**D, SERVICE: "w"}), True),
        (SERVICES, raw("w", {SERVICE: "w"}), False),
        (SERVICES, raw("other", {**S, SERVICE: "w"}), False),
        (PERSISTENT_VOLUME_CLAIMS, raw("c", {**D, "ebbtide/worker": "w"}), True),
        (PERSISTENT_VOLUME_CLAIMS, raw("c", D), False),
        (PERSISTENT_VOLUME_CLAIMS, raw("c", {**S, SERVICE: POOL}), True),
        (PERSISTENT_VOLUME_CLAIMS, raw("c", {**S, SERVICE: "mine"}), False),
        (PERSISTENT_VOLUME_CLAIMS, raw("c", S), False),
        (PDBS, raw("ebbtide-busy-workers"), True),
        (PDBS, raw("mine", D), False),
        (CONFIG_MAPS, raw(f"{POOL}-ledger", S), True),
        (CONFIG_MAPS, raw(f"{POOL}-ledger"), False),
        (CONFIG_MAPS, raw("mine", S), False),
    ],
)  # fmt: skip
def test_what_is_ours_of_the_workers_namespace(kind: Resource, body: Object, ours: bool) -> None:
    assert is_ours(kind, body, POOL) is ours


async def cleaned(client: Client, settings: Settings, *, dry_run: bool = False) -> tuple[Result, Account]:
    account = Account()
    result = await clean(client, settings, rules_of(settings), Options(dry_run, False, lambda _: None), account)
    return result, account


async def names(client: Client) -> dict[str, list[str]]:
    listed = {kind.plural: (await client.list_all(kind, namespace=NAMESPACE))[0] for kind in KINDS}
    return {plural: sorted(raw["metadata"]["name"] for raw in found) for plural, found in listed.items() if found}


async def fill(client: Client) -> None:
    """A dedicated worker and a pool, with all that belongs to them, and an operator's own set in a pool."""
    read = read_template(template())
    plan = Plan("w", "load-data-worker", Arrival(TaskId(1, 1, 1, 0), 7, 0), SIZE)
    made = await client.create(STATEFUL_SETS, own_set(read, plan, CELLS), namespace=NAMESPACE)
    await client.create(SERVICES, own_service(worker_set(made), "load-data-worker", 1), namespace=NAMESPACE)
    what = design(read, POOL, SIZE, CELLS)
    await client.create(STATEFUL_SETS, pool_set(NAMESPACE, POOL, what, 2), namespace=NAMESPACE)
    await client.create(SERVICES, pool_service(NAMESPACE, POOL, 1), namespace=NAMESPACE)
    await client.create(PDBS, budget(NAMESPACE), namespace=NAMESPACE)
    await client.create(CONFIG_MAPS, raw(name_of(POOL), S), namespace=NAMESPACE)
    mine = objects.stateful_set("mine", namespace=NAMESPACE, replicas=1, claims=["disk"])
    labels = {"metadata": {"labels": S}, "spec": {"template": {"metadata": {"labels": S}}}}
    await client.create(STATEFUL_SETS, objects.changed(mine, labels), namespace=NAMESPACE)


def test_workers_and_all_that_belongs_to_them_go_and_a_second_run_finds_nothing() -> None:
    """Disks too; an operator's own set in the pool, and its disk, stay."""

    async def story() -> None:
        async with (
            Cluster() as cluster,
            Client(cluster.access(), field_manager="test", user_agent="test") as client,
            living(cluster.storage),
        ):
            cluster.create(objects.namespace(NAMESPACE), template(replicas=0), objects.node("a", group="g", zone="a"))
            await fill(client)
            await asyncio.sleep(30.0)
            dry, _ = await cleaned(client, SETTINGS, dry_run=True)
            assert len(dry.plan.removals) >= 12
            result, account = await cleaned(client, SETTINGS)
            assert succeeded(account), account.left
            assert counts(account.removed)["statefulsets"] == 2
            assert "removed 2 sets of workers" in list(lines(result, account, dry_run=False))
            assert document(result, account, dry_run=False)["counts"]["configmaps"] == 1
            await asyncio.sleep(60.0)
            assert await names(client) == {
                "statefulsets": ["mine", "tikv-api"],
                "persistentvolumeclaims": ["disk-mine-0"],
            }
            again, _ = await cleaned(client, SETTINGS)
            assert again.plan.removals == ()

    simulate(story())


def test_without_the_scaler_the_namespace_is_not_even_looked_at() -> None:
    async def story() -> None:
        async with Cluster() as cluster, Client(cluster.access(), field_manager="test", user_agent="test") as client:
            await cleaned(client, Settings.model_validate({"certs": {"mode": "files"}}))
            assert not any(verb.resource == "statefulsets" for verb in client.sent)

    simulate(story())
