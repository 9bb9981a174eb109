"""Does the Cluster Autoscaler see the prevent taint, and heed it?

Facts about it are from its source: `utils/taints/taints.go` (what is left out of templates), `config/flags/flags.go`
(defaults), `core/static_autoscaler.go` and `processors/nodeinfosprovider` (which node is the template).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ebbtide.config import Settings
from ebbtide.config.rules import IGNORED_TAINT_PREFIXES
from ebbtide.config.units import format_duration, parse_duration
from ebbtide.preflight.finding import Finding, Status
from ebbtide.preflight.programs import AUTOSCALER, Flags, Program
from ebbtide.preflight.snapshot import Facts

_SWITCHES: Final = ("enforce-node-group-min-size", "balance-similar-node-groups")
_TAINT_FLAGS: Final = ("startup-taint", "status-taint", "ignore-taint")
_EXPIRE: Final = "node-info-cache-expire-time"
_EXPIRES_BY_DEFAULT: Final = "87600h"
_SCANS_BY_DEFAULT: Final = "10s"
# A group that was emptied while it was blocked is shut for as long as this: an hour is what an operator may not notice.
_LONGEST_EXPIRE: Final = 3600.0
_ADVISED: Final = "10m"


def autoscaler(facts: Facts, settings: Settings) -> Iterator[Finding]:
    """All checks of the autoscaler; those of its flags are unknown where none is found."""
    yield from _key(settings)
    running = [program for program in facts.programs if program.is_called(*AUTOSCALER)]
    yield from _presence(facts, running)
    for program in running:
        flags = program.flags(*_SWITCHES)
        yield from _taints(program, flags, settings)
        yield from _min_size(program, flags)
        yield from _template_cache(program, flags)
        yield from _scan_interval(program, flags, settings)
        yield from _balancing(program, flags)


def _key(settings: Settings) -> Iterator[Finding]:
    key = settings.node_rebalance.prevent_ca_scale_up_taint_key
    prefix = next((each for each in IGNORED_TAINT_PREFIXES if key.startswith(each)), None)
    if prefix is None:
        yield Finding("prevent-taint-key", Status.PASS, f"{key} has no prefix that the Cluster Autoscaler leaves out")
        return
    yield Finding(
        "prevent-taint-key",
        Status.FAIL,
        f"the configured prevent taint key {key} begins with {prefix}",
        "the Cluster Autoscaler leaves such taints out of its templates, so that no zone would ever be blocked",
        "set node-rebalance.prevent-ca-scale-up-taint-key to a key without that prefix",
    )


def _presence(facts: Facts, running: Sequence[Program]) -> Iterator[Finding]:
    if running:
        for program in running:
            yield _found(program)
    elif facts.unread_programs:
        reasons = "; ".join(part.reason for part in facts.unread_programs)
        yield Finding("autoscaler", Status.UNKNOWN, f"not all workloads could be read: {reasons}")
    else:
        yield Finding(
            "autoscaler",
            Status.WARN,
            "no Deployment, StatefulSet, DaemonSet or pod runs a cluster-autoscaler",
            "the prevent taint stops that program's growth; what else makes nodes here may not heed it",
            "if it runs outside of this cluster, compare its flags with docs/preflight.md by hand",
        )


def _found(program: Program) -> Finding:
    if program.replicas == 0:
        return Finding(
            "autoscaler",
            Status.WARN,
            f"{program.where} is scaled to 0",
            "pods that are evicted from a blocked zone find no new node elsewhere",
            "scale it up",
            (program.workload,),
        )
    return Finding("autoscaler", Status.PASS, f"{program.where} ({program.image})", objects=(program.workload,))


def _taints(program: Program, flags: Flags, settings: Settings) -> Iterator[Finding]:
    key, check = settings.node_rebalance.prevent_ca_scale_up_taint_key, "autoscaler-taints"
    given = [(flag, value) for flag in _TAINT_FLAGS for value in flags.all(flag)]
    covering = [f"--{flag}={value}" for flag, value in given if value == key]
    if covering:
        yield Finding(
            check,
            Status.FAIL,
            f"{program.where} has {' '.join(covering)}",
            "taints that are named so are left out of its templates: it grows a blocked zone as if nothing were",
            f"remove {' '.join(covering)}",
            (program.workload,),
        )
        return
    unclear = [
        f"--{flag}={value}" for flag, value in given if "$(" in value or value.startswith((f"{key}=", f"{key}:"))
    ]
    if unclear:
        yield Finding(
            check,
            Status.WARN,
            f"{program.where} has {' '.join(unclear)}",
            f"if that is meant to be {key}, blocked zones are grown as if nothing were",
            "remove the flag, or make sure that it names another key",
            (program.workload,),
        )
        return
    yield Finding(check, Status.PASS, f"{program.where} ignores no taint with key {key}", objects=(program.workload,))


def _min_size(program: Program, flags: Flags) -> Iterator[Finding]:
    check = "autoscaler-min-size"
    if not flags.is_on("enforce-node-group-min-size"):
        yield Finding(check, Status.PASS, f"{program.where} enforces no minimum sizes", objects=(program.workload,))
        return
    yield Finding(
        check,
        Status.WARN,
        f"{program.where} has --enforce-node-group-min-size",
        "a node group below its minimum is grown whatever its template says, also in a blocked zone",
        "remove the flag, or set the minimum size of the node groups in question to 0",
        (program.workload,),
    )


def _template_cache(program: Program, flags: Flags) -> Iterator[Finding]:
    check, given = "autoscaler-template-cache", flags.last(_EXPIRE)
    seconds = _seconds(given or _EXPIRES_BY_DEFAULT)
    if seconds is not None and seconds <= _LONGEST_EXPIRE:
        yield Finding(check, Status.PASS, f"{program.where} has --{_EXPIRE}={given}", objects=(program.workload,))
        return
    seen = f"has --{_EXPIRE}={given}" if given else f"runs without --{_EXPIRE} (then {_EXPIRES_BY_DEFAULT}, ten years)"
    yield Finding(
        check,
        Status.WARN,
        f"{program.where} {seen}",
        "when the last node of a blocked zone goes, it remembers the taint and never grows that node group again",
        f"run it with --{_EXPIRE}={_ADVISED}; shorter than a few scans would forget blocks that still hold",
        (program.workload,),
    )


def _scan_interval(program: Program, flags: Flags, settings: Settings) -> Iterator[Finding]:
    check, ours = "autoscaler-scan-interval", settings.node_rebalance.cluster_autoscaler_scan_interval
    given = flags.last("scan-interval") or _SCANS_BY_DEFAULT
    seconds = _seconds(given)
    if seconds is not None and seconds <= ours:
        yield Finding(check, Status.PASS, f"{program.where} scans every {given}", objects=(program.workload,))
        return
    yield Finding(
        check,
        Status.WARN,
        f"{program.where} scans every {given}, the configuration says {format_duration(ours)}",
        "a block would be said to be cached by the autoscaler before it has seen the taint",
        f'set node-rebalance.cluster-autoscaler-scan-interval = "{given}"',
        (program.workload,),
    )


def _balancing(program: Program, flags: Flags) -> Iterator[Finding]:
    on = flags.is_on("balance-similar-node-groups")
    remark = "evens its zones out again after a block" if on else "leaves nodes where a block has moved them"
    switch = "with" if on else "without"
    seen = f"{program.where} runs {switch} --balance-similar-node-groups: it {remark}"
    yield Finding("autoscaler-balancing", Status.PASS, seen, objects=(program.workload,))


def _seconds(text: str) -> float | None:
    try:
        return parse_duration(text)
    except ValueError:
        return None
