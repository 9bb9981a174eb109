"""What the webhook would do with an object if it were created now, and why, from the functions that serve requests."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final

from ebbtide.config import Settings
from ebbtide.errors import UsageError
from ebbtide.exclusion.decide import Skip
from ebbtide.exclusion.fields import mapping, text
from ebbtide.exclusion.pod import pod_traits
from ebbtide.kube.client import Client
from ebbtide.kube.resources import NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from ebbtide.kube.store import Store
from ebbtide.kube.stream import ADDED
from webhook.decide import Decision, Known, Rules, Untouched, about_pod, about_set
from webhook.patch import POD, TEMPLATE, operations
from webhook.report import result_of
from webhook.state import State, rules_of

Raw = Mapping[str, Any]
Document = dict[str, Any]

_POD: Final = ("v1", "Pod")
_SET: Final = ("apps/v1", "StatefulSet")
_UNTOUCHED: Final = Decision(skipped=Untouched.KIND)
# The namespace of an object that names none, as for kubectl without a context.
_DEFAULT: Final = "default"
_NEITHER: Final = "it is neither a Pod nor a StatefulSet; the pods of a controller are looked at when it makes them"


async def admission_of(client: Client, settings: Settings, raw: Raw) -> Document:
    """The document about an object as in a manifest. Reads the cluster once. Raises KubeError, UsageError."""
    try:
        namespace = text(mapping(raw, "metadata"), "namespace") or _DEFAULT
        return explain(raw, await _state(client, settings, namespace), rules_of(settings), namespace)
    except TypeError as error:
        raise UsageError(f"the object makes no sense: {error}") from error


def explain(raw: Raw, known: Known, rules: Rules, namespace: str) -> Document:
    """Pure. Raises TypeError for an object that has a field of a wrong type.

    Keys: `subject`, `state` (`mutated`, `unchanged`, `skipped`), `reason`, `zones`, `pool`, `warnings`, `patch`.
    """
    decision, patch = _decided(raw, known, rules, namespace)
    metadata = mapping(raw, "metadata")
    name = text(metadata, "name") or f"{text(metadata, 'generateName')}*"
    return {
        "subject": f"{str(raw.get('kind') or 'object').lower()} {namespace}/{name}",
        "state": str(result_of(decision, changed=bool(patch))),
        "reason": _reason(decision, patch),
        "zones": list(decision.exclusion.zones),
        "pool": decision.pool,
        "warnings": [caution.words for caution in decision.warnings],
        "patch": patch,
    }


def _decided(raw: Raw, known: Known, rules: Rules, namespace: str) -> tuple[Decision, list[Document]]:
    kind = (raw.get("apiVersion"), raw.get("kind"))
    if kind == _POD:
        traits = pod_traits(raw, rules.labels, namespace)
        decision = about_pod(raw, traits, known.zones, known.around(traits.namespace, traits.claims), rules)
        return decision, operations(raw, decision, rules.labels, POD)
    if kind == _SET:
        decision = about_set(raw, rules)
        return decision, operations(raw, decision, rules.labels, TEMPLATE)
    return _UNTOUCHED, []


def _reason(decision: Decision, patch: list[Document]) -> str:
    if decision.skipped is not None:
        return decision.skipped.words if isinstance(decision.skipped, Skip) else _NEITHER
    blocked = ", ".join(decision.exclusion.zones)
    parts = [f"blocked for it: {blocked}" if blocked else "no zone is blocked for it"]
    if decision.pin is not None:
        group = f"node group {decision.pin.group}" if decision.pin.group else "no single node group"
        parts.append(f"it is of pool {decision.pool} and {group}")
    if not patch:
        parts.append("it has all that is needed")
    return "; ".join(parts)


async def _state(client: Client, settings: Settings, namespace: str) -> State:
    """The state of one moment, as far as objects of that namespace need it."""
    state = State(settings)
    await _fill(client, NODES, state.nodes)
    await _fill(client, NAMESPACES, state.namespaces)
    if settings.webhook.volume_zone_awareness:
        await _fill(client, PERSISTENT_VOLUME_CLAIMS, state.claims, namespace)
        await _fill(client, PERSISTENT_VOLUMES, state.volumes)
    return state


async def _fill(client: Client, resource: Resource, store: Store[Any], namespace: str = "") -> None:
    world = store.gather()
    async with aclosing(client.list(resource, namespace=namespace)) as objects:
        async for raw in objects:
            world.apply(ADDED, raw)
    store.swap(world, 0)
