"""What goes and what stays: facts in, plan out; nothing here talks to anybody.

Ours is what the product itself sets, and only in the shape in which it sets it. What an operator sets to steer it
(`ebbtide/block`, `ebbtide/guard`, pool and group pins) is the operator's, and a signal belongs to who raised it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ebbtide import vocabulary
from ebbtide.cleanup.marks import ANNOTATIONS, LABELS
from ebbtide.cleanup.snapshot import Facts, Found
from ebbtide.cleanup.workers import KINDS, Workers
from ebbtide.kube.patch import Operation, only_at, pointer, remove, remove_taints
from ebbtide.kube.permissions import Need
from ebbtide.kube.resources import LEASES, SECRETS
from ebbtide.model import Taint


@dataclass(frozen=True, slots=True)
class Rules:
    """Which words are in use here. `taint_keys` are the prevent taint's, of this and of earlier configurations.

    `secret` is the name of the certificates' Secret, empty where certificates come from files; `workers` is None where
    the worker scaler is switched off.
    """

    taint_keys: frozenset[str]
    signal_key: str
    namespace: str
    lease: str
    secret: str = ""
    workers: Workers | None = None


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes from one object, or all of it. Valid only for the version that was found."""

    found: Found
    taints: tuple[Taint, ...] = ()
    annotations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    whole: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        """In words."""
        return (
            *(f"taint {taint.key}={taint.value}:{taint.effect}" for taint in self.taints),
            *(f"annotation {key}" for key in self.annotations),
            *(f"label {key}" for key in self.labels),
            *(("the object",) if self.whole else ()),
        )

    def patch(self) -> list[Operation]:
        """The JSON patch that takes exactly these marks away."""
        return [
            only_at(self.found.version),
            *remove_taints(self.found.taints, lambda taint: taint in self.taints),
            *(remove(pointer("metadata", "annotations", key)) for key in self.annotations),
            *(remove(pointer("metadata", "labels", key)) for key in self.labels),
        ]


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that stays, on which objects, and why."""

    what: str
    on: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """`removals` in the order in which they are done: the Lease last, so that an unfinished run is still seen."""

    removals: tuple[Removal, ...]
    kept: tuple[Kept, ...]

    @property
    def needs(self) -> tuple[Need, ...]:
        """The permissions that carrying it out takes."""
        patched = {removal.found.resource for removal in self.removals if not removal.whole}
        deleted = {(removal.found.resource, removal.found.namespace) for removal in self.removals if removal.whole}
        why = "to remove what is ours"
        return (
            *(Need(verb, each, why) for each in patched for verb in ("get", "patch")),
            *(Need(verb, each, why, namespace=where) for each, where in deleted for verb in ("get", "delete")),
        )


def decide(facts: Facts, rules: Rules) -> Plan:
    """Equal facts give equal plans; the plan for facts without any mark is empty."""
    everything = (*facts.nodes, *facts.pods, *facts.workers, *facts.secrets, *facts.leases)
    removals = (removal for found in everything if (removal := removal_from(found, rules)) is not None)
    return Plan(tuple(removals), tuple(_kept(facts, rules)))


def removal_from(found: Found, rules: Rules) -> Removal | None:
    """What goes from that object, None when there is nothing of ours."""
    if found.resource is LEASES:
        own = (found.namespace, found.name) == (rules.namespace, rules.lease)
        return Removal(found, whole=True) if own else None
    if found.resource in KINDS:
        return Removal(found, whole=True) if found.made_by_us else None
    if found.resource is SECRETS:
        return Removal(found, whole=True) if vocabulary.CERTS_LABEL in found.labels else None
    removal = Removal(
        found,
        tuple(taint for taint in found.taints if _is_ours(taint, rules)),
        tuple(sorted(found.annotations & ANNOTATIONS.get(found.resource, frozenset()))),
        tuple(sorted(found.labels & LABELS.get(found.resource, frozenset()))),
    )
    return removal if removal.marks else None


def _is_ours(taint: Taint, rules: Rules) -> bool:
    return taint.key in rules.taint_keys and taint.effect == vocabulary.PREVENT_TAINT_EFFECT


def _kept(facts: Facts, rules: Rules) -> Iterator[Kept]:
    signals = _names(node for node in facts.nodes if any(taint.key == rules.signal_key for taint in node.taints))
    if signals:
        yield Kept(f"signal taint {rules.signal_key}", signals, "it belongs to the program that raised it")
    other_effects = _names(node for node in facts.nodes if any(_only_looks_like_ours(t, rules) for t in node.taints))
    if other_effects:
        effect = vocabulary.PREVENT_TAINT_EFFECT
        yield Kept("prevent taint with another effect", other_effects, f"ebbtide sets it with {effect} only")
    if cordoned := _names(node for node in facts.nodes if node.cordoned):
        yield Kept("cordon", cordoned, "ebbtide never cordons")
    if overridden := _names(node for node in facts.nodes if vocabulary.BLOCK_ANNOTATION in node.annotations):
        yield Kept(f"annotation {vocabulary.BLOCK_ANNOTATION}", overridden, "an operator set it")
    foreign = tuple(f"{each.namespace}/{each.name}" for each in facts.secrets if removal_from(each, rules) is None)
    if foreign:
        yield Kept("Secret with the name of the certificates'", foreign, "somebody else made it")
    elsewhere = tuple(f"{lease.namespace}/{lease.name}" for lease in facts.leases if lease.namespace != rules.namespace)
    if elsewhere:
        reason = f"the configuration says namespace {rules.namespace}: give --config of the other installation"
        yield Kept("lease of that name in another namespace", elsewhere, reason)


def _only_looks_like_ours(taint: Taint, rules: Rules) -> bool:
    return taint.key in rules.taint_keys and not _is_ours(taint, rules)


def _names(found: Iterable[Found]) -> tuple[str, ...]:
    return tuple(each.name for each in found)
