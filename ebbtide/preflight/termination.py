"""Does something raise signals, exactly one thing, and does it leave the moving of pods to us?

Facts about aws-node-termination-handler are from its `pkg/config/config.go` (flags, variables, defaults: all of these
switches are off) and `cmd/node-termination-handler.go` (what it does with a rebalance recommendation).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ebbtide.config import Settings
from ebbtide.preflight.finding import Finding, Status, some
from ebbtide.preflight.programs import OURS, TERMINATION_HANDLER, Program
from ebbtide.preflight.snapshot import Facts
from ebbtide.preflight.unread import Unread

_CHECK: Final = "termination-handler"


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch of the handler: `wanted` is how it has to be, `signals` if that matters only to who raises signals."""

    flag: str
    wanted: bool
    why: str
    cure: str
    signals: bool = False

    @property
    def variable(self) -> str:
        return self.flag.replace("-", "_").upper()

    def value(self, program: Program) -> bool | None:
        return program.setting(self.flag, self.variable)


_QUEUE: Final = _Switch(
    "enable-sqs-termination-draining",
    wanted=False,
    why="in queue mode it cordons and drains a node as soon as its recommendation comes, whole zone or not",
    cure="run it as a DaemonSet in IMDS mode (Helm: enableSqsTerminationDraining=false)",
)
_DRAINING: Final = _Switch(
    "enable-rebalance-draining",
    wanted=False,
    why="it drains a node at each recommendation, false ones too, before the zone is blocked: pods move next door",
    cure="set ENABLE_REBALANCE_DRAINING=false (Helm: enableRebalanceDraining=false)",
)
_MONITORING: Final = _Switch(
    "enable-rebalance-monitoring",
    wanted=True,
    why="it does not look for rebalance recommendations, so that no zone is ever blocked",
    cure="set ENABLE_REBALANCE_MONITORING=true (Helm: enableRebalanceMonitoring=true)",
    signals=True,
)
_TAINTING: Final = _Switch(
    "taint-node",
    wanted=True,
    why="it tells nobody of a recommendation: without the taint on the node there is no signal",
    cure="set TAINT_NODE=true (Helm: taintNode=true)",
    signals=True,
)
_DRY: Final = _Switch(
    "dry-run",
    wanted=False,
    why="it only logs what it would do: no node gets a signal",
    cure="set DRY_RUN=false",
    signals=True,
)
_SWITCHES: Final = (_QUEUE, _DRAINING, _MONITORING, _TAINTING, _DRY)


def termination_handler(facts: Facts, settings: Settings) -> Iterator[Finding]:
    """How each handler is set."""
    handlers = _handlers(facts)
    others = [*_others(facts), *_queue(settings)]
    if not handlers:
        yield _without(facts)
    for program in handlers:
        yield from _judged(program, others)


def signal_sources(facts: Facts, settings: Settings) -> Iterator[Finding]:
    """One program should raise signals."""
    raising = [f"{program.where} (termination handler)" for program in _handlers(facts) if _raises(program)]
    ours = [*_others(facts), *_queue(settings)]
    check, sources, key = "signal-sources", [*raising, *ours], settings.node_rebalance.rebalance_signal_taint_key
    listed = "; ".join(sources)
    if sources and (len(sources) == 1 or not raising):
        # What agent and queue both hear is told once.
        yield Finding(check, Status.PASS, f"signals are raised by {listed}")
    elif sources:
        yield Finding(
            check,
            Status.WARN,
            f"signals are raised by {len(sources)} programs: {listed}",
            "each removes and dates its signals in its own way: a zone stays blocked until the last of them lets go",
            "keep one of them",
        )
    elif signalled := _signalled(facts):
        seen = f"signals are raised by a program that is not known here: {some(signalled)} carry {key}"
        yield Finding(check, Status.PASS, seen, objects=tuple(f"Node {name}" for name in signalled))
    elif facts.unread_programs:
        yield Finding(check, Status.UNKNOWN, f"not all workloads could be read: {facts.unread_programs[0].reason}")
    else:
        yield Finding(
            check,
            Status.WARN,
            "neither ebbtide agent, nor a queue, nor a termination handler that taints was found",
            "without signals no zone is ever blocked",
            f"run one of them (docs/signals.md); any program that taints nodes with {key} will do",
        )


def agents(facts: Facts) -> Iterator[Finding]:
    """Whether each agent knows which node it is on."""
    for program in _agents(facts):
        named = program.flags().last("node-name") or "NODE_NAME" in program.environment
        if named or program.more_environment:
            yield Finding("agent", Status.PASS, f"{program.where} is told its node", objects=(program.workload,))
            continue
        yield Finding(
            "agent",
            Status.FAIL,
            f"{program.where} has neither NODE_NAME nor --node-name",
            "it does not start: which node it is on cannot be told from inside a pod",
            "set NODE_NAME from the field spec.nodeName (docs/signals.md)",
            (program.workload,),
        )


def _judged(program: Program, others: Sequence[str]) -> Iterator[Finding]:
    relevant = [switch for switch in _SWITCHES if not (switch.signals and others)]
    wrong = [switch for switch in relevant if switch.value(program) is not None and _is_wrong(switch, program)]
    hidden = [switch for switch in relevant if switch.value(program) is None]
    for switch in wrong:
        seen = f"{program.where} runs {'without' if switch.wanted else 'with'} {switch.variable} (--{switch.flag})"
        yield Finding(_CHECK, Status.FAIL, seen, switch.why, switch.cure, (program.workload,))
    if hidden:
        names = ", ".join(switch.variable for switch in hidden)
        seen = f"{program.where} takes {names} from elsewhere (valueFrom, envFrom)"
        cure = "compare what it takes them from with docs/preflight.md"
        yield Finding(_CHECK, Status.UNKNOWN, seen, cure=cure, objects=(program.workload,))
    if not wrong and not hidden:
        seen = f"{program.where} leaves the moving of pods to ebbtide"
        yield Finding(_CHECK, Status.PASS, seen, objects=(program.workload,))


def _is_wrong(switch: _Switch, program: Program) -> bool:
    # In queue mode recommendations come from the queue, asked for or not.
    if switch is _MONITORING and _QUEUE.value(program):
        return False
    return switch.value(program) is not switch.wanted


def _without(facts: Facts) -> Finding:
    if facts.unread_programs:
        return Finding(_CHECK, Status.UNKNOWN, f"not all workloads could be read: {facts.unread_programs[0].reason}")
    return Finding(_CHECK, Status.PASS, "no aws-node-termination-handler is here that could drain nodes by itself")


def _handlers(facts: Facts) -> list[Program]:
    return [program for program in facts.programs if program.is_called(*TERMINATION_HANDLER) and program.replicas != 0]


def _raises(program: Program) -> bool:
    looks = _MONITORING.value(program) or _DRAINING.value(program) or _QUEUE.value(program)
    return bool(looks) and bool(_TAINTING.value(program)) and not _DRY.value(program)


def _agents(facts: Facts) -> list[Program]:
    return [p for p in facts.programs if p.is_called(*OURS) and "agent" in p.words[:2] and p.replicas != 0]


def _others(facts: Facts) -> list[str]:
    return [f"{program.where} (ebbtide agent)" for program in _agents(facts)]


def _queue(settings: Settings) -> list[str]:
    url = settings.signals.sqs.queue_url
    return [f"the reconciler, from queue {url.rpartition('/')[2]}"] if url else []


def _signalled(facts: Facts) -> list[str]:
    return [] if isinstance(facts.nodes, Unread) else [node.name for node in facts.nodes if node.signal]
