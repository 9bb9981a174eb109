"""What can happen to a cluster, one random event at a time: to nodes, pods, namespaces, and to the API server.

Every event is somebody else's doing. The functions change the cluster at once and return what they did in words, ""
when the cluster as it is has no place for it.
"""

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
from ebbtide.sim.kinds import NAMESPACES, NODES, PODS
from ebbtide.sim.stored import Object
from tests.simulation import notation
from tests.simulation.stage import Stage
from tests.simulation.wiretap import EVENT_PATH, EVICTION_PATH, LEASE_PATH, NODE_PATH

Happening = Callable[[Stage, Random], str]
GROUPS = ("g", "h")
ZONES = ("a", "b", "c")
QUIET_NAMESPACE = "sometimes-quiet"
_HOLD = "example.com/hold"


def _any(stage: Stage, rng: Random, holds: Callable[[Object], object] = lambda _: True) -> str:
    """The name of some node of which that holds, "" without one."""
    names = [node.name for node in stage.storage.scan(NODES) if holds(node.body)]
    return rng.choice(names) if names else ""


def is_signalled(node: Object) -> bool:
    return any(taint["key"] == vocabulary.SIGNAL_TAINT_KEY for taint in node["spec"].get("taints") or ())


def _is_live(node: Object) -> bool:
    return "deletionTimestamp" not in node["metadata"]


# --- nodes ------------------------------------------------------------------------------------------------------


def signal(stage: Stage, rng: Random) -> str:
    name = _any(stage, rng, lambda node: not is_signalled(node) and _is_live(node))
    if name:
        values = [notation.HASH, notation.HASH, "", str(int(stage.now) - 1000), str(int(stage.now)), "1772366000000"]
        stage.taint(name, notation.signal(value := rng.choice(values)))
        return f"signal {value!r} on {name}"
    return ""


def calm(stage: Stage, rng: Random) -> str:
    name = _any(stage, rng, is_signalled)
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
    name = _any(stage, rng, lambda node: vocabulary.ZONE_LABEL not in node["metadata"]["labels"])
    if name:
        stage.label(name, zone=name[0])
    return name and f"zone label on {name}"


def leave(stage: Stage, rng: Random) -> str:
    name = _any(stage, rng)
    if name:
        stage.delete(name)
    return name and f"delete {name}"


def recreate(stage: Stage, rng: Random) -> str:
    name = _any(stage, rng, _is_live)
    if name:
        group = stage.node(name)["metadata"]["labels"][vocabulary.NODE_GROUP_LABEL]
        stage.delete(name)
        if stage.storage.peek(NODES, name) is None:
            stage.join(name, group)
    return name and f"delete {name} and create it again"


def die_slowly(stage: Stage, rng: Random) -> str:
    name = _any(stage, rng, _is_live)
    if name:
        stage.change(name, lambda body: body["metadata"].update(finalizers=[_HOLD]))
        stage.storage.delete(NODES, name, "", Deletion())
    return name and f"{name} is being deleted"


def die_at_last(stage: Stage, rng: Random) -> str:
    name = _any(stage, rng, lambda node: not _is_live(node))
    if name:
        stage.change(name, lambda body: body["metadata"].pop("finalizers", None))
    return name and f"{name} is gone"


def cordon(stage: Stage, rng: Random) -> str:
    name = _any(stage, rng, _is_live)
    if name:
        stage.change(name, lambda body: body["spec"].update(unschedulable=not body["spec"].get("unschedulable", False)))
    return name and f"cordon or uncordon {name}"


def flap(stage: Stage, rng: Random) -> str:
    """A node becomes Ready, or not."""
    name = _any(stage, rng, _is_live)
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
    name, letter = _any(stage, rng), rng.choice("XYZ")
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
    name = _any(stage, rng, lambda node: "P" in notation.marks(node).split())
    if name:
        stage.untaint(name, vocabulary.PREVENT_TAINT_KEY)
    return name and f"our taint off {name}"


def ignore(stage: Stage, rng: Random) -> str:
    name = _any(stage, rng, _is_live)
    if not name:
        return ""
    ignored = vocabulary.BLOCK_ANNOTATION in (stage.node(name)["metadata"].get("annotations") or {})
    stage.annotate(name, vocabulary.BLOCK_ANNOTATION, None if ignored else vocabulary.BLOCK_IGNORE)
    return f"override {'off' if ignored else 'on'} {name}"


def ignore_namespace(stage: Stage, rng: Random) -> str:
    value = rng.choice([None, vocabulary.BLOCK_IGNORE])
    patch = {"metadata": {"annotations": {vocabulary.BLOCK_ANNOTATION: value}}}
    body = objects.changed(stage.storage.get(NAMESPACES, QUIET_NAMESPACE), patch)
    stage.storage.update(NAMESPACES, body)
    return f"override {value} on namespace {QUIET_NAMESPACE}"


# --- pods -------------------------------------------------------------------------------------------------------

_POD_SHAPES: Sequence[tuple[str, Object]] = (
    ("ReplicaSet", {}),
    ("ReplicaSet", {"metadata": {"labels": {"app": "held"}}}),
    ("ReplicaSet", {"metadata": {"annotations": {"sim.ebbtide/stopping": "200"}}}),
    ("ReplicaSet", {"spec": {"priority": 100}}),
    ("ReplicaSet", {"spec": {"tolerations": [{"operator": "Exists"}]}}),
    ("ReplicaSet", {"spec": {"tolerations": list(notation.BOTH_TOLERATED)}}),
    ("ReplicaSet", {"spec": {"tolerations": [notation.BOTH_TOLERATED[1]]}}),
    ("ReplicaSet", {"status": {"phase": "Succeeded"}}),
    ("DaemonSet", {}),
    ("", {}),
    ("", {"metadata": {"annotations": {vocabulary.MIRROR_POD_ANNOTATION: "x"}}}),
    ("", {"metadata": {"namespace": QUIET_NAMESPACE}}),
)


def pod(stage: Stage, rng: Random) -> str:
    node = _any(stage, rng, _is_live)
    kind, patch = rng.choice(_POD_SHAPES)
    name = f"p{rng.randrange(40)}"
    namespace = patch.get("metadata", {}).get("namespace", "default")
    if not node or stage.storage.peek(PODS, name, namespace) is not None:
        return ""
    stage.pods(node, name, kind=kind, **patch)
    return f"pod {name} on {node}: {kind} {patch}"


def drop_pod(stage: Stage, rng: Random) -> str:
    pods = [pod for pod in stage.storage.scan(PODS) if not pod.deleting]
    if not pods:
        return ""
    gone = rng.choice(pods)
    stage.storage.delete(PODS, gone.name, gone.namespace, Deletion(grace_seconds=rng.choice([0, None])))
    return f"pod {gone.name} is deleted by somebody"


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


HAPPENINGS: Sequence[tuple[Happening, float]] = (
    (signal, 6),
    (calm, 4),
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
    (ignore, 1),
    (ignore_namespace, 1),
    (pod, 8),
    (drop_pod, 2),
    (fault, 5),
    (watch_fault, 2),
)


SERVER_TROUBLE: frozenset[Happening] = frozenset((fault, watch_fault))


def happen(stage: Stage, rng: Random, *, server_is_well: bool) -> str:
    """One of them, chosen by weight."""
    possible = [(what, weight) for what, weight in HAPPENINGS if not (server_is_well and what in SERVER_TROUBLE)]
    (chosen,) = rng.choices([what for what, _ in possible], [weight for _, weight in possible])
    return chosen(stage, rng)
