"""One drawing per case of the decision: a zone as it is found and as it is left, decided by the code that decides.

Plain SVG files, which sites, code hosts and readers without a network show alike. What a drawing says of the decision,
its reason and the state of the zone is what `decide` and `judge` answer; only the captions are written by hand.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import Cell, NodeFacts, Taint, format_time
from reconciler.rebalance.decide import decide
from reconciler.rebalance.plan import CellFacts, GroupFacts, Plan, is_prevented
from reconciler.rebalance.verdict import Streak, Verdict, judge

_NOW: Final = 1772366400.0
_MINUTE: Final = 60.0
_GROUP: Final = "tikv"
_PREVENT: Final = Taint(vocabulary.PREVENT_TAINT_KEY, "1772366000", vocabulary.PREVENT_TAINT_EFFECT)

# Measures in pixels: the card, one zone on it, one node in a zone.
_WIDTH: Final = 800
_ZONE_WIDTH: Final = 360
_NODE_HEIGHT: Final = 42
_TOP: Final = 64
_STYLE: Final = """\
text{font:13px system-ui,sans-serif;fill:#1f2933}
.card{fill:#fff;stroke:#cbd2d9}.zone{fill:#f5f7fa;stroke:#9aa5b1}.node{fill:#fff;stroke:#9aa5b1}
.head{font-weight:600}.note{fill:#52606d}.mono{font-family:ui-monospace,monospace;font-size:12px}
.pill{stroke:none}.signal{fill:#fce1b6}.prevent{fill:#cfe3fb}.cordon{fill:#e4e7eb}.pod{fill:#7b8794}
.line{stroke:#52606d;stroke-width:2;fill:none}
@media (prefers-color-scheme:dark){text{fill:#e4e7eb}.note{fill:#cbd2d9}
.card{fill:#171c23;stroke:#3e4c59}.zone{fill:#1f2933;stroke:#52606d}.node{fill:#171c23;stroke:#52606d}
.signal{fill:#7a4b00}.prevent{fill:#0f4c8a}.cordon{fill:#3e4c59}.pod{fill:#9aa5b1}.line{stroke:#9aa5b1}}"""


@dataclass(frozen=True)
class Case:
    """A zone as it is found. `looked_at` is the node that is looked at for eviction; `others` are the group's zones
    beside it, `settings` those that differ from the defaults."""

    name: str
    title: str
    nodes: tuple[NodeFacts, ...]
    looked_at: str | None = None
    others: tuple[str, ...] = ("b",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    quiet_for: float = 0.0

    @property
    def rules(self) -> NodeRebalance:
        return NodeRebalance(**self.settings)

    @property
    def facts(self) -> CellFacts:
        return CellFacts(Cell(_GROUP, "a"), self.nodes, quiet_for=self.quiet_for)


def node(
    name: str, *, signal: float | None = None, prevent: bool = False, cordoned: bool = False, ignored: bool = False
) -> NodeFacts:
    """A node of the group, Ready for ten minutes; `signal` is the age of its signal in seconds."""
    signals = () if signal is None else (Taint(vocabulary.SIGNAL_TAINT_KEY, str(int(_NOW - signal)), "NoSchedule"),)
    return NodeFacts(
        name=name,
        uid=f"uid-{name}",
        resource_version=1,
        cell=Cell(_GROUP, name[0]),
        zone_label=vocabulary.ZONE_LABEL,
        taints=(*signals, *([_PREVENT] if prevent else [])),
        created=_NOW - 86400,
        ready_since=_NOW - 10 * _MINUTE,
        unschedulable=cordoned,
        deleting=False,
        ignored=ignored,
        first_seen=None if signal is None else format_time(_NOW - signal),
        has_annotations=True,
    )


CASES: Final = (
    Case("recent", "One signal, still young", (node("a1", signal=2 * _MINUTE), node("a2"), node("a3")), "a1"),
    Case("old", "One signal that stays", (node("a1", signal=6 * _MINUTE), node("a2"), node("a3")), "a1"),
    Case(
        "several",
        "Two signals, however young: each signalled node is looked at for itself, here a1",
        (node("a1", signal=20), node("a2", signal=5), node("a3")),
        "a1",
    ),
    Case(
        "joins",
        "A node joins a blocked zone",
        (node("a1", signal=9 * _MINUTE, prevent=True), node("a2", prevent=True), node("a3")),
    ),
    Case(
        "kept",
        "Blocked already, and the signal that is left is young",
        (node("a1", signal=_MINUTE, prevent=True), node("a2", prevent=True), node("a3")),
        "a1",
    ),
    Case("over", "The last signal has gone", (node("a1", prevent=True), node("a2", prevent=True)), quiet_for=1.0),
    Case(
        "hold-down",
        "The last signal has gone, with hold-down = 5m",
        (node("a1", prevent=True), node("a2", prevent=True)),
        settings={"hold_down": 5 * _MINUTE},
        quiet_for=_MINUTE,
    ),
    Case(
        "last-open",
        "The only open zone, with min-open-zones = 1",
        (node("a1", signal=20), node("a2", signal=5)),
        "a1",
        others=(),
        settings={"min_open_zones": 1},
    ),
    Case(
        "ignored",
        "A node of the zone is annotated ebbtide/block=ignore",
        (node("a1", signal=9 * _MINUTE), node("a2", ignored=True)),
        "a1",
    ),
    Case(
        "cordoned",
        "Every node is cordoned by another program",
        (node("a1", signal=9 * _MINUTE, cordoned=True), node("a2", signal=8 * _MINUTE, cordoned=True)),
        "a1",
    ),
)


def plan_of(case: Case) -> Plan:
    """What is decided."""
    zones = {"a": case.facts} | {zone: CellFacts(Cell(_GROUP, zone), (node(f"{zone}1"),)) for zone in case.others}
    return decide(GroupFacts(_GROUP, zones), case.facts.cell, case.looked_at, case.rules, _NOW)


def left(case: Case, plan: Plan) -> CellFacts:
    """The zone once the plan was carried out."""
    return replace(case.facts, nodes=tuple(_written(each, plan) for each in case.nodes))


def _written(each: NodeFacts, plan: Plan) -> NodeFacts:
    if each.name in plan.taint:
        return replace(each, taints=(*each.taints, _PREVENT))
    if each.name in plan.untaint:
        return replace(each, taints=tuple(taint for taint in each.taints if taint.key != _PREVENT.key))
    return each


def verdict_of(case: Case) -> Verdict:
    """The state of the zone after that."""
    plan = plan_of(case)
    return judge(left(case, plan), plan, Streak(), case.rules, _NOW)


def drawing(case: Case) -> str:
    """The case as an SVG document."""
    plan, verdict = plan_of(case), verdict_of(case)
    height = _TOP + len(case.nodes) * _NODE_HEIGHT + 72
    gone = plan.evict.node.name if plan.evict else None
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="t d">',
        f'<title id="t">{escape(case.title)}</title>',
        f'<desc id="d">{escape(told(case))}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1}" height="{height - 1}" rx="8"/>',
        *_text(16, 26, case.title, "head"),
        *_zone(16, "zone a as it is found", case.nodes, None),
        f'<path class="line" d="M386 {height // 2}h26m-8 -6l8 6l-8 6"/>',
        *_zone(424, "as it is left", left(case, plan).nodes, gone),
        *_text(16, height - 36, f"because {plan.reason}", "note"),
        *_text(16, height - 14, f"state: {verdict.state}", "mono"),
        "</svg>",
        "",
    )
    return "\n".join(lines)


def told(case: Case) -> str:
    """The drawing in words, for who does not see it."""
    plan = plan_of(case)
    parts = [f"tainted: {', '.join(plan.taint)}"] if plan.taint else []
    parts += [f"freed of the taint: {', '.join(plan.untaint)}"] if plan.untaint else []
    parts += [f"emptied: {plan.evict.node.name}"] if plan.evict else []
    return f"{'; '.join(parts) or 'nothing is done'}; because {plan.reason}; state {verdict_of(case).state}"


def _zone(x: int, head: str, nodes: tuple[NodeFacts, ...], emptied: str | None) -> Iterator[str]:
    height = len(nodes) * _NODE_HEIGHT + 8
    yield from _text(x, _TOP - 10, head, "note")
    yield f'<rect class="zone" x="{x}" y="{_TOP}" width="{_ZONE_WIDTH}" height="{height}" rx="6"/>'
    for index, each in enumerate(nodes):
        yield from _node(x + 8, _TOP + 8 + index * _NODE_HEIGHT, each, each.name == emptied)


def _node(x: int, y: int, each: NodeFacts, emptied: bool) -> Iterator[str]:
    yield f'<rect class="node" x="{x}" y="{y}" width="{_ZONE_WIDTH - 16}" height="34" rx="4"/>'
    yield from _text(x + 10, y + 22, each.name, "mono")
    if emptied:
        yield from _text(x + 36, y + 22, "pods go", "note")
    else:
        yield from (f'<circle class="pod" cx="{x + at}" cy="{y + 17}" r="6"/>' for at in (46, 64))
    at = x + 92
    for kind, words in _marks(each):
        width = 7 * len(words) + 12
        yield f'<rect class="pill {kind}" x="{at}" y="{y + 7}" width="{width}" height="20" rx="10"/>'
        yield from _text(at + 6, y + 21, words, "mono")
        at += width + 6


def _marks(each: NodeFacts) -> Iterator[tuple[str, str]]:
    signal = each.taint(vocabulary.SIGNAL_TAINT_KEY)
    if signal is not None:
        age = _NOW - float(signal.value)
        yield "signal", f"signal {age / _MINUTE:.0f} min" if age >= _MINUTE else f"signal {age:.0f} s"
    if is_prevented(each, NodeRebalance()):
        yield "prevent", "no growth"
    if each.unschedulable:
        yield "cordon", "cordoned"
    if each.ignored:
        yield "cordon", "ignore"


def _text(x: int, y: int, words: str, kind: str) -> Iterator[str]:
    yield f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'
