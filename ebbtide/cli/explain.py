"""`ebbtide explain`: why a zone, node or pod is as it is."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable
from functools import partial

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ebbtide.cli.asking import add_flags, ask, duration, print_json
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.model import Cell
from reconciler.explain import Explainer, Explanation
from reconciler.inquiry import Inquiry

Question = Callable[[Explainer], Awaitable[Explanation]]


def add_arguments(parser: ArgumentParser) -> None:
    """One sub-command per kind of object."""
    kinds = parser.add_subparsers(title="what to explain", metavar="KIND", required=True)
    zone = kinds.add_parser("zone", help="a zone of a node group")
    zone.add_argument("subject", type=_cell, metavar="GROUP/ZONE", help="node group and zone, as in prod/us-east-1a")
    zone.set_defaults(question=lambda subject: lambda explainer: explainer.zone(subject))
    node = kinds.add_parser("node", help="a node: its zone, and whether its pods are evicted")
    node.add_argument("subject", metavar="NAME", help="name of the node")
    node.set_defaults(question=lambda subject: lambda explainer: explainer.node(subject))
    pod = kinds.add_parser("pod", help="a pod: whether it is evicted, and if not, why")
    pod.add_argument("subject", type=_pod, metavar="NAMESPACE/NAME", help="namespace and name of the pod")
    pod.set_defaults(question=lambda subject: lambda explainer: explainer.pod(*subject))
    for each in (zone, node, pod):
        add_flags(each)


def run(arguments: Namespace) -> int:
    return ask(arguments, partial(_answer, arguments.question(arguments.subject), arguments.output))


async def _answer(question: Question, form: str, client: Client, settings: Settings) -> int:
    explanation = await question(Explainer(Inquiry(client, settings), settings, SystemClock()))
    if form == "json":
        print_json(explanation.document())
    else:
        show(explanation, Console(highlight=False))
    return 0


def show(explanation: Explanation, console: Console) -> None:
    """The explanation in words."""
    console.print(Text(f"{explanation.subject}: {explanation.state}", style="bold"))
    console.print(Text(f"  because {explanation.reason}"))
    for what, names in (("taint", explanation.taint), ("untaint", explanation.untaint)):
        if names:
            console.print(Text(f"  to {what}: {', '.join(names)}"))
    console.print(Text(f"  evict pods: {'yes' if explanation.evict else 'no'}"))
    for held in explanation.held_back:
        console.print(Text(f"  held back: {held.what}: {held.reason}"))
    _show_facts(explanation, console)


def _show_facts(explanation: Explanation, console: Console) -> None:
    facts = explanation.facts.get("node") or explanation.facts
    if facts.get("verdict"):
        console.print(Text(f"  does the block hold: {facts['verdict']}"))
    for signal in facts.get("signals", ()):
        age = duration(signal["ageSeconds"])
        console.print(Text(f"  signal: node {signal['node']}, {age} old (read from its {signal['source']})"))
    if facts.get("lookAgainInSeconds") is not None:
        console.print(Text(f"  next look without any event: in {duration(facts['lookAgainInSeconds'])}"))
    if facts.get("nodes"):
        console.print(marks(facts["nodes"]))


def marks(nodes: list[dict[str, object]]) -> Table:
    """Nodes with their marks."""
    table = Table("node", "signal", "prevent taint", "cordoned", "ready", "being deleted", box=None, pad_edge=True)
    for node in nodes:
        flags = (node[key] for key in ("signal", "prevent", "cordoned", "ready", "deleting"))
        table.add_row(Text(str(node["name"])), *("yes" if flag else "-" for flag in flags))
    return table


def _cell(text: str) -> Cell:
    group, slash, zone = text.rpartition("/")
    if not (group and slash and zone):
        raise ArgumentTypeError(f"{text!r} is not GROUP/ZONE")
    return Cell(group, zone)


def _pod(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return namespace, name
