"""What random events are about: a node of a kind, by chance."""

from collections.abc import Callable
from random import Random

from ebbtide import vocabulary
from ebbtide.sim.kinds import NODES
from ebbtide.sim.stored import Object
from tests.simulation.stage import Stage


def any_node(stage: Stage, rng: Random, holds: Callable[[Object], object] = lambda _: True) -> str:
    """The name of some node of which that holds, "" without one."""
    names = [node.name for node in stage.storage.scan(NODES) if holds(node.body)]
    return rng.choice(names) if names else ""


def endangered_node(stage: Stage, rng: Random) -> str:
    """The name of some live node, every second time of a signalled one, since around those most can go wrong."""
    signalled = any_node(stage, rng, lambda node: is_live(node) and is_signalled(node)) if rng.random() < 0.5 else ""
    return signalled or any_node(stage, rng, is_live)


def is_signalled(node: Object) -> bool:
    return any(taint["key"] == vocabulary.SIGNAL_TAINT_KEY for taint in node["spec"].get("taints") or ())


def is_live(node: Object) -> bool:
    return "deletionTimestamp" not in node["metadata"]
