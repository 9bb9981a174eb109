"""Nodes, cells, groups, pods and plans with defaults, so that a case says only what is special about it.

Everything is at `NOW`. A node `a1` stands in zone `a` of group `g`, Ready for ten minutes, schedulable and clean.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from zlib import crc32

from ebbtide import vocabulary
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import Cell, NodeFacts, Owner, PodFacts, Taint, Toleration, VolumeFacts, format_time
from reconciler.rebalance.decide import decide
from reconciler.rebalance.evictions import Candidate
from reconciler.rebalance.plan import CellFacts, Change, GroupFacts, NodeWrite, Plan, Wish

NOW = 1772366400.0  # 2026-03-01T12:00:00Z
SIGNAL = vocabulary.SIGNAL_TAINT_KEY
PREVENT = vocabulary.PREVENT_TAINT_KEY
HASH = "rebalance-recommendation-5e1f0c"


def rules(**settings: Any) -> NodeRebalance:
    """The default configuration with some settings changed."""
    return NodeRebalance(**settings)


DEFAULTS = rules()


def signal_taint(value: str = HASH, *, added: float | None = None, effect: str = "NoSchedule") -> Taint:
    return Taint(SIGNAL, value, effect, added)


def prevent_taint(value: str = "1772366000", effect: str = "NoSchedule") -> Taint:
    return Taint(PREVENT, value, effect)


FOREIGN = Taint("team", "x", "NoSchedule")


def seen(age: float) -> str:
    """Our annotation as it was written `age` seconds ago."""
    return format_time(NOW - age)


def node(
    name: str,
    *,
    signal: float | Taint | None = None,
    prevent: bool = False,
    taints: Iterable[Taint] = (),
    cordoned: bool = False,
    deleting: bool = False,
    ready_for: float | None = 600.0,
    **special: Any,
) -> NodeFacts:
    """A node; its zone is the first letter of its name.

    `signal` is the age in seconds that our annotation gives a signal without a time, or a signal taint as it is.
    `taints` stand before the signal taint, and that before the prevent taint.
    """
    signals = () if signal is None else (signal,) if isinstance(signal, Taint) else (signal_taint(),)
    age = signal if isinstance(signal, float | int) else None
    plain = NodeFacts(
        name=name,
        uid=f"uid-{name}",
        resource_version=crc32(name.encode()),
        cell=Cell("g", name[0]),
        zone_label=vocabulary.ZONE_LABEL,
        taints=(*taints, *signals, *([prevent_taint()] if prevent else [])),
        created=NOW - 86400,
        ready_since=None if ready_for is None else NOW - ready_for,
        unschedulable=cordoned,
        deleting=deleting,
        ignored=False,
        first_seen=None if age is None else seen(age),
        has_annotations=True,
    )
    return replace(plain, **special)


def cell(*nodes: NodeFacts, **special: Any) -> CellFacts:
    """The cell of the first node, with exactly these nodes."""
    assert nodes[0].cell is not None
    return CellFacts(nodes[0].cell, nodes, **special)


def group(*cells: CellFacts) -> GroupFacts:
    """All zones of one group."""
    return GroupFacts(cells[0].cell.group, {facts.cell.zone: facts for facts in cells})


def plan_of(
    facts: CellFacts, look_at: str | None = None, rules: NodeRebalance = DEFAULTS, now: float = NOW, *zones: CellFacts
) -> Plan:
    """What is decided for a cell; `zones` are the group's others."""
    return decide(group(facts, *zones), facts.cell, look_at, rules, now)


def plan(wish: Wish, reason: str = "because") -> Plan:
    """A plan for g/a that only says what the cell should be."""
    return Plan(Cell("g", "a"), wish, reason, (), (), None, (), None)


def applied(plan: Plan, facts: CellFacts, rules: NodeRebalance, now: float) -> CellFacts:
    """The cell after the plan was carried out by somebody who knows nothing of patches."""
    writes = {write.node.name: write for write in plan.writes}
    return replace(facts, nodes=tuple(_written(n, writes.get(n.name), rules, now) for n in facts.nodes))


def _written(node: NodeFacts, write: NodeWrite | None, rules: NodeRebalance, now: float) -> NodeFacts:
    if write is None:
        return node
    key, taints, first_seen = rules.prevent_ca_scale_up_taint_key, node.taints, node.first_seen
    if write.prevent is Change.SET:
        taints = (*taints, Taint(key, str(int(now)), "NoSchedule"))
    if write.prevent is Change.REMOVE:
        taints = tuple(taint for taint in taints if (taint.key, taint.effect) != (key, "NoSchedule"))
    if write.first_seen is not Change.LEAVE:
        seen_at = now if write.seen_at is None else write.seen_at
        first_seen = format_time(max(seen_at, node.created)) if write.first_seen is Change.SET else None
    return replace(node, taints=taints, first_seen=first_seen)


def owner(kind: str) -> Owner:
    return Owner(kind, f"some-{kind.lower()}", f"uid-{kind}")


DEPLOYED = owner("ReplicaSet")


def pod(name: str = "p1", **special: Any) -> PodFacts:
    """A running pod of a Deployment in namespace `default` on node a1."""
    plain = PodFacts(
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        resource_version=1,
        node="a1",
        phase="Running",
        priority=0,
        deleting=False,
        owner=DEPLOYED,
        mirror=False,
        tolerations=(),
        claims=(),
        pool="",
        busy=False,
    )
    return replace(plain, **special)


def toleration(key: str = "", operator: str = "Exists", value: str = "", effect: str = "") -> Toleration:
    return Toleration(key, operator, value, effect)


def volume(name: str, *zones: str) -> VolumeFacts:
    """A volume that can be reached from these zones, from everywhere without any."""
    return VolumeFacts(name, f"uid-{name}", 1, frozenset(zones) or None)


def candidate(pod: PodFacts, *, group: str = "g", since: float = NOW, own: bool = False) -> Candidate:
    """A pod that is to go."""
    return Candidate(pod, Cell(group, "a"), since, own)


def volumes(**by_claim: VolumeFacts) -> Mapping[str, VolumeFacts]:
    """Volumes behind the claims of namespace `default`."""
    return {f"default/{claim}": volume for claim, volume in by_claim.items()}
