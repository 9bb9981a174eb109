"""What can be played: each scenario is a script for the world around the reconciler, and what it promises.

Times in the scripts are seconds since the curtain rose. A script only moves the world (signals, instances, load); it
does not know whether a reconciler is there, since each is also played without one, for comparison.
"""

from typing import Final

from ebbtide.cli.demo import promises
from ebbtide.cli.demo.chronicle import What
from ebbtide.cli.demo.load.scenarios import BURST, IMPORT
from ebbtide.cli.demo.scenario import RISKY, SAFE, SPOT, Scenario, World

# Nodes of the Spot group in the risky zone are called a-1, a-2, …; the cloud names new ones in the same way.
_CELL_PREFIX: Final = "a-"


async def _one_old_signal(world: World) -> None:
    await world.at(4)
    world.signal("a-1")
    await world.at(135)
    await world.take("a-1")


async def _several_signals(world: World) -> None:
    await world.at(4)
    world.signal("a-1")
    await world.at(14)
    world.signal("a-2")
    await world.at(40)
    await world.take("a-1", "a-2")


async def _false_alarm(world: World) -> None:
    await world.at(4)
    world.signal("a-1")
    await world.at(84)
    world.withdraw("a-1")
    await world.at(150)


async def _budget(world: World) -> None:
    await world.at(4)
    world.signal("a-1", "a-3")
    await world.at(130)
    await world.take("a-1", "a-3")


async def _late_node(world: World) -> None:
    await world.at(4)
    world.scale("tidb", 10)
    await world.at(30)
    world.signal("a-1", "a-2")
    await world.at(90)
    await world.take("a-1", "a-2")


async def _all_cordoned(world: World) -> None:
    await world.at(4)
    world.signal("a-1", "a-2", "a-3")
    await world.at(240)
    await world.take("a-1", "a-2", "a-3")


_MOVE: Final = (
    promises.reaches(SPOT, RISKY, "blocked"),
    promises.grows(SAFE),
    promises.moves_out(RISKY),
    promises.empties_signalled(SPOT),
    promises.everything_serves(),
    promises.ends_open(SPOT, RISKY),
)
_CARE: Final = (
    promises.taints_only(_CELL_PREFIX, RISKY),
    promises.nothing_is_killed(),
    promises.at_most_one_away("tikv"),
)

SCENARIOS: Final = (
    Scenario(
        "several-signals",
        "two nodes of a zone are signalled within seconds: the zone is blocked at once",
        f"The pods of both nodes come up in {SAFE} before AWS takes the instances.",
        _several_signals,
        _MOVE,
        (*_CARE, promises.never_grows(RISKY)),
    ),
    Scenario(
        "one-old-signal",
        "one signal that does not go away: the zone is blocked when it is older than two minutes",
        f"Nothing moves before the limit; then the node's pods come up in {SAFE}.",
        _one_old_signal,
        _MOVE,
        (*_CARE, promises.never_grows(RISKY), promises.waits_first(120.0)),
        patience=120.0,
    ),
    Scenario(
        "false-alarm",
        "one recent signal that goes away by itself: nothing happens",
        "No taint, no eviction, no new node.",
        _false_alarm,
        (
            promises.reaches(SPOT, RISKY, "waiting"),
            promises.reaches(SPOT, RISKY, "open"),
            promises.ends_open(SPOT, RISKY),
        ),
        (
            promises.never("no node is tainted", What.TAINTED),
            promises.never("no pod is evicted", What.EVICTED, What.REFUSED),
            promises.never("no pod is away", What.POD_AWAY),
            promises.never("no node is added", What.NODE_ADDED),
        ),
        patience=120.0,
    ),
    Scenario(
        "budget",
        "both signalled nodes hold a database pod, and its PodDisruptionBudget lets one go at a time",
        f"The second database pod leaves when the first is Ready in {SAFE}, not before.",
        _budget,
        (*_MOVE, promises.refused_first()),
        (*_CARE, promises.never_grows(RISKY)),
    ),
    Scenario(
        "late-node",
        "a node that was ordered before the block arrives in the blocked zone",
        f"It is tainted as it appears, gets no pod, and growth goes on in {SAFE}.",
        _late_node,
        _MOVE,
        (*_CARE, promises.taints_newcomers(RISKY, within=1.0)),
    ),
    Scenario(
        "all-cordoned",
        "every node of the zone is signalled and cordoned: the taint does not reach the autoscaler",
        f"The reconciler says so; what is added in {RISKY} is tainted too, and the pods end up in {SAFE}.",
        _all_cordoned,
        (
            promises.reaches(SPOT, RISKY, "ineffective"),
            promises.tells("ZoneBlockIneffective"),
            *_MOVE,
        ),
        (*_CARE, promises.taints_newcomers(RISKY, within=1.0)),
    ),
    IMPORT,
    BURST,
)
