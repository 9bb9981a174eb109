"""Which node group the Cluster Autoscaler grows, by how much, and why not another: its scale-up as a pure function."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Any

from ebbtide.sim.actors.amounts import allocatable, requested
from ebbtide.sim.actors.predicates import refusals
from ebbtide.sim.actors.rooms import View
from ebbtide.sim.actors.templates import NodeGroup, Template, empty_room, refuses

Raw = Mapping[str, Any]


class Expander(Enum):
    """How one of several fitting groups is picked (the autoscaler's `--expander`)."""

    RANDOM = "random"
    LEAST_WASTE = "least-waste"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group as the autoscaler sees it now. `size` counts nodes that are there and nodes that are ordered."""

    group: NodeGroup
    template: Template
    size: int


@dataclass(frozen=True, slots=True)
class Considered:
    """What was found about one group; `against` is empty when it fits `pods` with `nodes` more nodes."""

    group: str
    source: str
    pods: tuple[str, ...] = ()
    nodes: int = 0
    waste: float = 0.0
    against: str = ""

    def __str__(self) -> str:
        if self.against:
            return f"{self.group}: no, {self.against} (template: {self.source})"
        return f"{self.group}: fits {len(self.pods)} with {self.nodes} more (template: {self.source})"


@dataclass(frozen=True, slots=True)
class Growth:
    """One scale-up decision. `grown` is the chosen group's name, empty when none fits."""

    waiting: tuple[str, ...]
    considered: tuple[Considered, ...]
    grown: str = ""
    nodes: int = 0

    def __str__(self) -> str:
        outcome = f"grow {self.grown} by {self.nodes}" if self.grown else "grow nothing"
        return f"{outcome} for {', '.join(self.waiting)} [{'; '.join(str(each) for each in self.considered)}]"


def still_waiting(
    pods: Iterable[Raw], around: View, upcoming: Iterable[tuple[Template, int]]
) -> tuple[tuple[Raw, ...], View]:
    """The pods for which neither a standing node nor one that is on its way has room, the largest first.

    `upcoming` says how many nodes like each template are on their way. With them comes the view in which the other
    pods stand where they were found room.
    """
    coming = [
        empty_room(template, f"upcoming-{number}-{each}")
        for number, (template, count) in enumerate(upcoming)
        for each in range(count)
    ]
    world = replace(around, rooms=(*around.rooms, *coming))
    waiting = []
    for pod in sorted(pods, key=_by_size):
        name = _first_fit(pod, world)
        if name:
            world = world.placed(pod, name)
        else:
            waiting.append(pod)
    return tuple(waiting), world


def decide(
    waiting: Sequence[Raw], candidates: Sequence[Candidate], around: View, expander: Expander, rng: Random
) -> Growth:
    """Picks the group to grow. One group per decision; what it does not help waits for the next scan."""
    considered = tuple(consider(candidate, waiting, around) for candidate in candidates)
    names = tuple(pod_name(pod) for pod in waiting)
    fitting = [each for each in considered if not each.against]
    if not fitting:
        return Growth(names, considered)
    priorities = {candidate.group.name: candidate.group.priority for candidate in candidates}
    chosen = _expand(fitting, priorities, expander, rng)
    return Growth(names, considered, grown=chosen.group, nodes=chosen.nodes)


def consider(candidate: Candidate, waiting: Sequence[Raw], around: View) -> Considered:
    """What growing this group would do for the waiting pods."""
    group, template = candidate.group, candidate.template
    about = Considered(group.name, template.source)
    left = group.largest - candidate.size
    if left <= 0:
        return replace(about, against=f"max node group size reached ({group.largest})")
    reasons = {pod_name(pod): refuses(template, pod, around) for pod in waiting}
    helped = [pod for pod in waiting if not reasons[pod_name(pod)]]
    if not helped:
        said = sorted({reason for each in reasons.values() for reason in each})
        return replace(about, against=", ".join(said))
    nodes, placed = _packed(template, helped, around, left)
    return replace(
        about, pods=placed, nodes=nodes, waste=_waste(template, nodes, [p for p in helped if pod_name(p) in placed])
    )


def pod_name(pod: Raw) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _packed(template: Template, pods: Sequence[Raw], around: View, most: int) -> tuple[int, tuple[str, ...]]:
    """How many new nodes the pods need, first fit in order, and which pods that places (the binpacking estimator)."""
    world, new, placed = around, 0, []
    fresh: set[str] = set()
    for pod in pods:
        name = _first_fit(pod, world, among=fresh)
        if not name and new < most:
            room = empty_room(template, f"new-{new}")
            extended = replace(world, rooms=(*world.rooms, room))
            if not refusals(pod, room, extended):
                world, name, new = extended, room.name, new + 1
                fresh.add(name)
        if name:
            world = world.placed(pod, name)
            placed.append(pod_name(pod))
    return new, tuple(placed)


def _first_fit(pod: Raw, around: View, among: set[str] | None = None) -> str:
    for room in around.rooms:
        if (among is None or room.name in among) and not refusals(pod, room, around):
            return room.name
    return ""


def _expand(
    fitting: Sequence[Considered], priorities: Mapping[str, int], expander: Expander, rng: Random
) -> Considered:
    if expander is Expander.LEAST_WASTE:
        least = min(each.waste for each in fitting)
        return rng.choice([each for each in fitting if each.waste == least])
    if expander is Expander.PRIORITY:
        most = max(priorities[each.group] for each in fitting)
        return rng.choice([each for each in fitting if priorities[each.group] == most])
    return rng.choice(fitting)


def _waste(template: Template, nodes: int, pods: Iterable[Raw]) -> float:
    """The unused shares of cpu and memory of the new nodes together (expander/waste); 0 to 2."""
    offered, asked = allocatable(template.node), [requested(pod) for pod in pods]
    cpu = sum(each.cpu for each in asked) / max(offered.cpu * nodes, 1)
    memory = sum(each.memory for each in asked) / max(offered.memory * nodes, 1)
    return (1 - cpu) + (1 - memory)


def _by_size(pod: Raw) -> tuple[int, int, str]:
    asked = requested(pod)
    return -asked.cpu, -asked.memory, pod_name(pod)
