"""What can happen to a cluster, one random event at a time: to nodes, pods, namespaces, and to the API server.

Every event is somebody else's doing. The functions change the cluster at once and return what they did in words, ""
when the cluster as it is has no place for it.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from ebbtide import vocabulary
from ebbtide.sim import objects
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.faults import (
    Answer,
    Compact,
    CutWatch,
    Delay,
    Drop,
    Effect,
    FreezeWatch,
    LoseEvents,
    RepeatEvents,
    When,
)
from ebbtide.sim.kinds import NAMESPACES, NODES
from ebbtide.sim.stored import Object
from tests.simulation import notation, pod_events
from tests.simulation.draws import any_node, endangered_node, is_live, is_signalled
from tests.simulation.stage import Stage
from tests.simulation.wiretap import EVENT_PATH, EVICTION_PATH, LEASE_PATH, NODE_PATH

Happening = Callable[[Stage, Random], str]
Weighted = tuple[Happening, float]
GROUPS = ("g", "h")
ZONES = ("a", "b", "c")
_HOLD = "example.com/hold"


# --- nodes ------------------------------------------------------------------------------------------------------


def signal(stage: Stage, rng: Random) -> str:
    name = any_node(stage, rng, lambda node: not is_signalled(node) and is_live(node))
    if name:
        values = [notation.HASH, notation.HASH, "", str(int(stage.now) - 1000), str(int(stage.now)), "1772366000000"]
        stage.taint(name, notation.signal(value := rng.choice(values)))
        return f"signal {value!r} on {name}"
    return ""


def calm(stage: Stage, rng: Random) -> str:
    name = any_node(stage, rng, is_signalled)
    if name:
        stage.calm(name)
    return name and f"signal off {name}"


def join(stage: Stage, rng: Random) -> str:
    """A node appears, sometimes without its zone, sometimes under a name that was there before."""
    zone, group = rng.choice(ZONES), rng.choice(GROUPS)
    name = f"{zone}{group}{rng.randrange(6)}"
    if stage.storage.peek(NODES, name) is not None:
        return ""
    text = " ".join([name, *rng.sample(["X", "Y", "S", "unready"], rng.choice([0, 0, 1, 2]))])
    late = rng.random() < 0.3
    stage.join(text, group, **({"metadata": {"labels": {vocabulary.ZONE_LABEL: None}}} if late else {}))
    return f"join {text}{' without zone' if late else ''}"


def label(stage: Stage, rng: Random) -> str:
    name = any_node(stage, rng, lambda node: vocabulary.ZONE_LABEL not in node["metadata"]["labels"])
    if name:
        stage.label(name, zone=name[0])
    return name and f"zone label on {name}"


def leave(stage: Stage, rng: Random) -> str:
    name = any_node(stage, rng)
    if name:
        stage.delete(name)
    return name and f"delete {name}"


def recreate(stage: Stage, rng: Random) -> str:
    name = any_node(stage, rng, is_live)
    if name:
        group = stage.node(name)["metadata"]["labels"][vocabulary.NODE_GROUP_LABEL]
        stage.delete(name)
        if stage.storage.peek(NODES, name) is None:
            stage.join(name, group)
    return name and f"delete {name} and create it again"


def die_slowly(stage: Stage, rng: Random) -> str:
    name = any_node(stage, rng, is_live)
    if name:
        stage.change(name, lambda body: body["metadata"].update(finalizers=[_HOLD]))
        stage.storage.delete(NODES, name, "", Deletion())
    return name and f"{name} is being deleted"


def die_at_last(stage: Stage, rng: Random) -> str:
    name = any_node(stage, rng, lambda node: not is_live(node))
    if name:
        stage.change(name, lambda body: body["metadata"].pop("finalizers", None))
    return name and f"{name} is gone"


def cordon(stage: Stage, rng: Random) -> str:
    name = any_node(stage, rng, is_live)
    if name:
        stage.change(name, lambda body: body["spec"].update(unschedulable=not body["spec"].get("unschedulable", False)))
    return name and f"cordon or uncordon {name}"


def flap(stage: Stage, rng: Random) -> str:
    """A node becomes Ready, or not."""
    name = endangered_node(stage, rng)
    if not name:
        return ""
    ready = not any(c["type"] == "Ready" and c["status"] == "True" for c in stage.node(name)["status"]["conditions"])
    body = stage.storage.get(NODES, name)
    kept = [condition for condition in body["status"]["conditions"] if condition["type"] != "Ready"]
    body["status"]["conditions"] = [*kept, objects.ready_condition(ready=ready, since=stage.storage.now())]
    stage.storage.update_status(NODES, body)
    return f"{name} is {'' if ready else 'not '}ready"


def foreign_taint(stage: Stage, rng: Random) -> str:
    """Another writer puts a taint anywhere into the list, or takes one of its own out."""
    name, letter = any_node(stage, rng), rng.choice("XYZ")
    if not name:
        return ""

    def change(body: Object) -> None:
        taints = body["spec"].get("taints") or []
        kept = [taint for taint in taints if taint["key"] != f"example.com/{letter}"]
        if len(kept) == len(taints):
            kept.insert(rng.randint(0, len(kept)), notation.foreign(letter))
        body["spec"]["taints"] = kept

    stage.change(name, change)
    return f"{letter} on or off {name}"


def strip(stage: Stage, rng: Random) -> str:
    name = any_node(stage, rng, lambda node: "P" in notation.marks(node).split())
    if name:
        stage.untaint(name, vocabulary.PREVENT_TAINT_KEY)
    return name and f"our taint off {name}"


def ignore(stage: Stage, rng: Random) -> str:
    name = endangered_node(stage, rng)
    if not name:
        return ""
    ignored = vocabulary.BLOCK_ANNOTATION in (stage.node(name)["metadata"].get("annotations") or {})
    stage.annotate(name, vocabulary.BLOCK_ANNOTATION, None if ignored else vocabulary.BLOCK_IGNORE)
    return f"override {'off' if ignored else 'on'} {name}"


def ignore_namespace(stage: Stage, rng: Random) -> str:
    value = rng.choice([None, vocabulary.BLOCK_IGNORE])
    patch = {"metadata": {"annotations": {vocabulary.BLOCK_ANNOTATION: value}}}
    body = objects.changed(stage.storage.get(NAMESPACES, pod_events.QUIET_NAMESPACE), patch)
    stage.storage.update(NAMESPACES, body)
    return f"override {value} on namespace {pod_events.QUIET_NAMESPACE}"


def mark_for_removal(stage: Stage, rng: Random) -> str:
    """The autoscaler marks a node that it removes, or takes its mark off; some marks were left by one that died."""
    name = endangered_node(stage, rng)
    if not name:
        return ""
    if any(
        taint["key"] == vocabulary.TO_BE_DELETED_TAINT_KEY for taint in stage.node(name)["spec"].get("taints") or ()
    ):
        stage.untaint(name, vocabulary.TO_BE_DELETED_TAINT_KEY)
        return f"the autoscaler keeps {name}"
    age = rng.choice([0, 0, 600, 1000])
    stage.taint(name, objects.taint(vocabulary.TO_BE_DELETED_TAINT_KEY, str(int(stage.now) - age)))
    return f"the autoscaler removes {name}, for {age} s already"


def refuse_writes(stage: Stage, rng: Random) -> str:
    """An admission policy that lets nobody write a node, until it is mended."""
    name, seconds = endangered_node(stage, rng), rng.choice([5, 40, 90])
    if name:
        refusal = stage.faults.inject(Answer(403, "Forbidden"), When("PATCH", f"/api/v1/nodes/{name}"))
        asyncio.get_running_loop().call_later(seconds, stage.faults.remove, refusal)
    return name and f"{name} cannot be written for {seconds} s"


# --- the API server ---------------------------------------------------------------------------------------------

_PATHS = (NODE_PATH, NODE_PATH, EVICTION_PATH, EVICTION_PATH, LEASE_PATH, EVENT_PATH, "/api/v1/*", "*")


def fault(stage: Stage, rng: Random) -> str:
    """The next few requests of a kind go wrong."""
    code = rng.choice([409, 422, 429, 500, 503, 504])
    effects: list[Effect] = [
        Answer(code, retry_after=rng.choice([None, None, 1, 5])),
        Answer(code),
        Delay(before=rng.choice([0.05, 1, 4])),
        Delay(after=rng.choice([0.05, 1, 4])),
        Delay(before=90),
        Drop(),
        Drop(processed=True),
    ]
    when = When(rng.choice(["PATCH", "POST", "PUT", "GET", "*"]), rng.choice(_PATHS), times=rng.choice([1, 2, 5]))
    stage.faults.inject(effect := rng.choice(effects), when)
    return f"{effect} for {when}"


def watch_fault(stage: Stage, rng: Random) -> str:
    """The next watch goes wrong, which begins now."""
    number = rng.randrange(4)
    effects: list[Effect] = [
        CutWatch(number, cleanly=rng.random() < 0.5),
        FreezeWatch(number),
        LoseEvents(skip=number),
        RepeatEvents(count=None),
        Compact(),
        Answer(rng.choice([410, 429, 500, 503])),
        Delay(before=rng.choice([0.5, 5])),
    ]
    path = rng.choice(["/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces", "*"])
    stage.faults.inject(effect := rng.choice(effects), When("WATCH", path, times=1))
    return f"{effect} for watches of {path}, {stage.faults.cut_watches(path)} cut"


HAPPENINGS: Sequence[Weighted] = (
    (signal, 6),
    (calm, 3),
    (join, 4),
    (label, 3),
    (leave, 2),
    (recreate, 2),
    (die_slowly, 1),
    (die_at_last, 1),
    (cordon, 2),
    (flap, 2),
    (foreign_taint, 5),
    (strip, 2),
    (ignore, 2),
    (ignore_namespace, 2),
    (mark_for_removal, 3),
    (refuse_writes, 1),
    (pod_events.appear, 11),
    (pod_events.go, 2),
    (pod_events.bind_claim, 0.2),
    (fault, 5),
    (watch_fault, 2),
)


SERVER_TROUBLE: frozenset[Happening] = frozenset((fault, watch_fault))


def happen(stage: Stage, rng: Random, *others: Weighted, server_is_well: bool) -> str:
    """One of them, or of others, chosen by weight."""
    all_of_them = (*HAPPENINGS, *others)
    possible = [(what, weight) for what, weight in all_of_them if not (server_is_well and what in SERVER_TROUBLE)]
    (chosen,) = rng.choices([what for what, _ in possible], [weight for _, weight in possible])
    return chosen(stage, rng)
