"""`ebbtide explain`: why a zone, node, pod or load-data task is as it is."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from ebbtide.cli import admission
from ebbtide.cli.asking import Terminal, add_flags, add_url, ask, duration, plain, print_json
from ebbtide.cli.tables import table
from ebbtide.cli.workers import of_task
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.config.units import parse_size
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden
from ebbtide.model import Cell
from reconciler.explain.explanation import Explanation
from reconciler.explain.nodes import Explainer
from reconciler.explain.tasks import TaskExplainer
from reconciler.inquiry import Inquiry
from reconciler.scaler.task import TaskId

Question = Callable[[Explainer], Awaitable[Explanation]]
Line = tuple[str, str]
Raw = dict[str, Any]

# The nodes of a zone may be thousands; the JSON form has all of them.
_MOST_NODES: Final = 20
_INDENT: Final = 2
# A node has up to 110 pods by default, and they may all be held by one budget.
_MOST_HELD: Final = 20
_ADMITTED: Final = {"mutated": "changed", "unchanged": "left as it is", "skipped": "left alone"}
_CLOCKS: Final = {
    "taint-value": "the value of its taint",
    "time-added": "the timeAdded of its taint",
    "annotation": "the annotation in which ebbtide noted it",
    "now": "nowhere: it has only just been seen, and ebbtide notes that",
}


def add_arguments(parser: ArgumentParser) -> None:
    """One sub-command per kind of object."""
    kinds = parser.add_subparsers(title="what to explain", metavar="KIND", required=True)
    zone = kinds.add_parser("zone", help="a zone of a node group", allow_abbrev=False)
    zone.add_argument("subject", type=_cell, metavar="GROUP/ZONE", help="node group and zone, as in prod/us-east-1a")
    zone.set_defaults(question=lambda subject: lambda explainer: explainer.zone(subject))
    node = kinds.add_parser("node", help="a node: its zone, and whether its pods are evicted", allow_abbrev=False)
    node.add_argument("subject", metavar="NAME", help="name of the node")
    node.set_defaults(question=lambda subject: lambda explainer: explainer.node(subject))
    pod = kinds.add_parser(
        "pod", help="a pod: whether it is evicted or which zones it avoids, and why", allow_abbrev=False
    )
    which = pod.add_mutually_exclusive_group(required=True)
    which.add_argument("subject", type=_pod, nargs="?", metavar="NAMESPACE/NAME", help="namespace and name of the pod")
    which.add_argument(
        "-f", "--filename", metavar="PATH", help="manifest instead: what admission would do, with the patch (-: stdin)"
    )
    pod.set_defaults(question=lambda subject: lambda explainer: explainer.pod(*subject), is_pod=True)
    task = kinds.add_parser("task", help="a load-data task: where it is, or where it would go", allow_abbrev=False)
    task.add_argument("subject", type=_task, metavar="ID", help="the task's id, as in 1-1701753296955293956-139-0")
    task.add_argument(
        "--data-size",
        type=_size,
        metavar="SIZE",
        help='size, as in 3GB, of a task that is not known: "where would it go?"',
    )
    add_url(task)
    for each in (zone, node, pod, task):
        add_flags(each)


def run(arguments: Namespace) -> int:
    if getattr(arguments, "filename", None) is not None:
        return ask(arguments, partial(admission.answer, arguments.filename, arguments.output))
    if isinstance(arguments.subject, TaskId):
        return ask(arguments, partial(_answer_task, arguments))
    pod = arguments.subject if "is_pod" in arguments else None
    return ask(arguments, partial(_answer, arguments.question(arguments.subject), pod, arguments.output))


async def _answer(
    question: Question, pod: tuple[str, str] | None, form: str, client: Client, settings: Settings
) -> int:
    inquiry = Inquiry(client, settings, settings.home)
    explanation = await question(Explainer(inquiry, settings, SystemClock()))
    if pod is not None:
        found = await _of_admission(await inquiry.pod(*pod), client, settings)
        unknown = [*explanation.facts.get("unknown", ()), *found.pop("unknown", ())]
        explanation = replace(explanation, facts={**explanation.facts, **found, "unknown": unknown})
    return _told(explanation, form)


async def _answer_task(arguments: Namespace, client: Client, settings: Settings) -> int:
    inquiry = Inquiry(client, settings, settings.home)
    explainer = TaskExplainer(inquiry, settings, SystemClock(), arguments.url or "")
    return _told(await explainer.explain(arguments.subject, arguments.data_size), arguments.output)


def _told(explanation: Explanation, form: str) -> int:
    if form == "json":
        print_json(explanation.document())
    else:
        show(explanation, Terminal())
    return 0


async def _of_admission(raw: Raw | None, client: Client, settings: Settings) -> dict[str, Any]:
    """What is to be added to the facts about a pod, which may have gone meanwhile."""
    try:
        return {} if raw is None else {"admission": await admission.admitted_anew(raw, client, settings)}
    except Forbidden as error:
        return {"unknown": [f"what admission would do with it: {error}"]}


def show(explanation: Explanation, terminal: Terminal) -> None:
    """The explanation in words."""
    terminal.show(plain(f"{explanation.subject}: {explanation.state}", "bold"))
    words = Table.grid(padding=(0, 2, 0, 0))
    words.add_column(no_wrap=True)
    words.add_column(overflow="fold")
    for label, sentence in _lines(explanation):
        words.add_row(plain(label), plain(sentence))
    terminal.show(_indented(words))
    nodes = explanation.facts.get("nodes") or []
    if nodes:
        terminal.show(_indented(_marks(_foremost(nodes), terminal.width - _INDENT)))
    if len(nodes) > _MOST_NODES:
        terminal.show(plain(f"  … and {len(nodes) - _MOST_NODES} more nodes; --output json has all of them"))


def _lines(explanation: Explanation) -> Iterator[Line]:
    facts = explanation.facts
    yield "because", explanation.reason
    if facts.get("verdict") and facts["verdict"] != explanation.reason:
        yield "does it hold", facts["verdict"]
    if facts.get("advice"):
        yield "what to do", facts["advice"]
    yield from _to_do(explanation)
    for signal in facts.get("signals", ())[:_MOST_NODES]:
        source = _CLOCKS.get(signal["source"], signal["source"])
        yield "signal", f"of node {signal['node']}, {duration(signal['ageSeconds'])} old, read from {source}"
    yield from _of_waiting(facts)
    yield from of_task(facts)
    yield from _of_group(facts)
    yield from _admitted_anew(facts.get("admission"))
    if facts.get("lookAgainInSeconds") is not None:
        yield "next look", f"in {duration(facts['lookAgainInSeconds'])}, if nothing happens before"
    for unknown in facts.get("unknown", ()):
        yield "not known", unknown


def _to_do(explanation: Explanation) -> Iterator[Line]:
    """What is done now, and what is not."""
    for what, names in (("to taint", explanation.taint), ("to untaint", explanation.untaint)):
        if names:
            yield what, _listed(names)
    yield from _evictions(explanation.facts)
    if explanation.facts.get("wouldStay") and not explanation.evict:
        yield "in any case", f"it would not be evicted: {explanation.facts['wouldStay']}"
    if explanation.readmit:
        yield "to do", "it is deleted, so that its controller makes it anew and it is admitted with the zones of now"
    for held in explanation.held_back[:_MOST_HELD]:
        yield "held back", f"{held.what}: {held.reason}"
    if len(explanation.held_back) > _MOST_HELD:
        yield "held back", f"and {len(explanation.held_back) - _MOST_HELD} more; --output json has all of them"


def _evictions(facts: Any) -> Iterator[Line]:
    if facts.get("eviction"):
        yield "eviction", facts["eviction"]
    for node in facts.get("evictions", ())[:_MOST_NODES]:
        if node["evict"]:
            yield "eviction", f"of node {node['node']}: {node['reason']}"
    going = [pod["pod"] for pod in facts.get("pods", ()) if pod["evict"]]
    if going:
        yield "to evict", _listed(going)


def _of_waiting(facts: Any) -> Iterator[Line]:
    """What is known of a pod without a node."""
    if "avoid" in facts:
        yield "must avoid", _listed(facts["avoid"]) or "no zone"
        yield "carries", _listed(facts["carries"]) or "no zone that ebbtide excluded"
    for group in facts.get("groups", ()):
        blocked = f"blocked: {_listed(group['blocked'])}" if group["blocked"] else "none blocked"
        yield "node group", f"{group['group']}: zones {_listed(group['zones'])}; {blocked}"
    for warning in facts.get("warnings", ()):
        yield "warning", warning
    if facts.get("scheduler"):
        yield "scheduler", facts["scheduler"]


def _admitted_anew(found: Any) -> Iterator[Line]:
    """What the webhook would do with a pod."""
    if not found:
        return
    yield "admission", f"if it were created now it would be {_ADMITTED[found['state']]}: {found['reason']}"
    for warning in found["warnings"]:
        yield "warning", f"of admission: {warning}"
    for operation in found["patch"]:
        yield f"  {operation['op']}", admission.change(operation)


def _of_group(facts: Any) -> Iterator[Line]:
    """The group's other zones, where a rule looks at them."""
    if facts.get("rules", {}).get("minOpenZones"):
        zones = _listed(f"{zone['zone']} ({zone['state']})" for zone in facts["zones"])
        yield "rule", f"min-open-zones = {facts['rules']['minOpenZones']}; zones of the group: {zones}"
    if facts.get("rules", {}).get("holdDownSeconds"):
        yield "rule", f"hold-down = {facts['rules']['holdDownSeconds']:g} s after the last signal has gone"


def _marks(nodes: list[dict[str, Any]], width: int) -> Table:
    """Nodes with their marks."""
    marks = ("signal", "prevent", "cordoned", "ready", "deleting")
    rows = [[plain(node["name"]), *(plain("yes" if node[mark] else "-") for mark in marks)] for node in nodes]
    return table(("NODE", "SIGNAL", "TAINTED", "CORDONED", "READY", "GOING"), rows, width, keys=1, folded=("NODE",))


def _foremost(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as are shown: signalled ones first, then those that lack the taint or are not like the others."""
    order = sorted(nodes, key=lambda node: (not node["signal"], node["prevent"], not node["cordoned"], node["name"]))
    return order[:_MOST_NODES]


def _indented(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, _INDENT))


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - _MOST_NODES} more" if len(known) > _MOST_NODES else ""
    return ", ".join(known[:_MOST_NODES]) + more


def _cell(text: str) -> Cell:
    group, slash, zone = text.rpartition("/")
    if not (group and slash and zone):
        raise ArgumentTypeError(f"{text!r} is not GROUP/ZONE")
    return Cell(group, zone)


def _task(text: str) -> TaskId:
    try:
        return TaskId.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no task id: {error}") from error


def _size(text: str) -> int:
    try:
        return parse_size(int(text) if text.isascii() and text.isdigit() else text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no size, as in 3GB or in bytes") from error


def _pod(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return namespace, name
