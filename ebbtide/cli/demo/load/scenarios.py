"""The scenarios with load-data tasks. Times that are minutes in life are shorter here, as each scaler's rules say."""

from typing import Final

from ebbtide.cli.demo import promises
from ebbtide.cli.demo.load import promises as kept
from ebbtide.cli.demo.load.tables import GIB, MIB, Table
from ebbtide.cli.demo.scenario import RISKY, SAFE, SPOT, Scenario, World
from ebbtide.config.scaler import PoolSpec, Tier, WorkerScaler
from ebbtide.sim.loaders.worker import CLUSTER

_FIRST: Final = (
    Table(1, "regions", 40 * MIB, 24),
    Table(2, "nations", 500 * MIB, 40),
    Table(3, "suppliers", 3 * GIB // 2, 60),
    Table(4, "parts", 4 * GIB, 70),
    Table(5, "customers", 12 * GIB, 110),
    Table(6, "orders", 110 * GIB, 150),
    Table(7, "lineitem", 240 * GIB, 190, chunks=30),
)
_SECOND: Final = (
    Table(8, "invoices", 20 * GIB, 60),
    Table(9, "payments", 60 * GIB, 70),
    Table(10, "shipments", 800 * MIB, 50),
)
_BURST: Final = 36
_SETTLED: Final = 60.0

# The built-in sizes of workers (from so many GiB on: cores, volumes), all on one node group.
_SIZES: Final = ((0, 1, 1), (1, 2, 1), (10, 3.5, 1), (50, 7, 1), (100, 14, 4), (500, 25, 16))
_IMPORT_RULES: Final = WorkerScaler(
    run=True,
    name="ldw",
    cluster_id=CLUSTER,
    worker_address="pod-ip",
    expire_seconds=60.0,
    reservation_seconds=60.0,
    start_timeout=60.0,
    worker_count_limit=8,
    sts_configs=tuple(
        Tier(min_data_size_gb=least, request_cpu=cores, limit_cpu=cores, worker_num=volumes, node_group=SPOT)
        for least, cores, volumes in _SIZES
    ),
)
_BURST_RULES: Final = WorkerScaler(
    run=True,
    cluster_id=CLUSTER,
    worker_address="pod-ip",
    start_timeout=60.0,
    shared_pool_enabled=True,
    shared_max_replicas=6,
    shared_scale_up_tasks_per_pod=4,
    shared_max_tasks_per_pod=6,
    shared_idle_pod_expire_sec=_SETTLED,
    shared_sts_config=PoolSpec(
        request_cpu=3, limit_cpu=3, request_memory=8, limit_memory=8, storage_size_gb=20, node_group=SPOT
    ),
)


async def _import(world: World) -> None:
    await world.at(4)
    world.load(*_FIRST)
    await world.at(45)
    world.signal("a-1", "a-2")
    await world.at(55)
    world.load(*_SECOND)
    await world.at(90)
    world.restart("lineitem")


async def _burst(world: World) -> None:
    for number in range(_BURST):
        await world.at(4 + number)
        world.load(Table(number + 1, f"t{number + 1:02}", (8 + number * 37 % 90) * 10 * MIB, 45 + number * 29 % 80))


_CARE: Final = (
    kept.none_is_cut_off(),
    kept.none_fails(),
    kept.redirects_only_first(),
    kept.one_place_each(),
)

IMPORT: Final = Scenario(
    "import",
    "ten tables, in local pods or by workers of their own; meanwhile a zone is blocked",
    f"Every table is loaded, new workers come up in {SAFE}, busy ones stay, and in the end none is left.",
    _import,
    (
        kept.every_table_ends(),
        kept.nothing_is_left(),
        promises.reaches(SPOT, RISKY, "blocked"),
        kept.holds_back_busy(),
    ),
    (*_CARE, kept.own_workers_at_most(_IMPORT_RULES.worker_count_limit), kept.places_none(RISKY)),
    scaler=_IMPORT_RULES,
)

BURST: Final = Scenario(
    "burst",
    "36 small tables: the shared pool goes from no pod to six, and back to none",
    "Every table is loaded, the pool shrinks behind the last of them, and nothing of it is left.",
    _burst,
    (kept.every_table_ends(), kept.reaches_size(_BURST_RULES.shared_max_replicas), kept.nothing_is_left()),
    (*_CARE, kept.pool_at_most(_BURST_RULES.shared_max_replicas)),
    scaler=_BURST_RULES,
)
