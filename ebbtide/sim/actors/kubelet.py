"""All kubelets of the cluster, and the part of the control plane that looks after nodes and their orphans.

Nodes become Ready some time after they appear; until then they carry the not-ready taint. Pods on a Ready node start,
become Ready, and, once they are being deleted, stop. Pods whose node is gone are removed. How long each takes is a
`Timings`, which an annotation on the single object can override.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final, Never

from ebbtide.sim.actors.predicates import taints_of, toleration
from ebbtide.sim.actors.reaction import react, soonest
from ebbtide.sim.actors.rooms import finished
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import NODES, PODS
from ebbtide.sim.storage import Change, Storage, Write
from ebbtide.sim.stored import Object, Stored

Raw = Mapping[str, Any]

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
# Seconds for one object, in place of the cluster's timing of that stage: `sim.ebbtide/stopping: "600"`.
TIMING_ANNOTATION_PREFIX: Final = "sim.ebbtide/"

# A loop's timer may ring this much too early (its clock's resolution, rounding); seconds.
_EARLY: Final = 1e-6

_POD_STATUS: Final = Write("kubelet", "status")
_NODE_STATUS: Final = Write("kubelet", "status")
_LIFECYCLE: Final = Write("kube-controller-manager")


class Stage(Enum):
    """What an object waits for. The value is its name in annotations."""

    JOINING = "joining"
    STARTING = "starting"
    WARMING = "warming"
    STOPPING = "stopping"
    ORPHANED = "orphaned"
    BEATING = "beating"
    EXPELLED = "expelled"


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds that each stage lasts.

    `joining`: a new node, until it is Ready. `starting`: a bound pod, until it is Running, `warming`: then, until it is
    Ready. `stopping`: a deleted pod, until it is gone, at most its grace period. `orphaned`: a pod whose node is gone
    (the pod garbage collector's quarantine is 40 s). `beating`: between heartbeats of a Ready node, None for none.
    How long a pod stays on a node with a NoExecute taint is the pod's own affair (`tolerated_for`).
    """

    joining: float = 20.0
    starting: float = 2.0
    warming: float = 1.0
    stopping: float = 2.0
    orphaned: float = 40.0
    beating: float | None = None

    def of(self, stage: Stage, thing: Raw) -> float | None:
        """How long this object stays in the stage; None for ever."""
        annotated = (thing["metadata"].get("annotations") or {}).get(TIMING_ANNOTATION_PREFIX + stage.value)
        seconds: float | None = float(annotated) if annotated else getattr(self, stage.value)
        if stage is Stage.STOPPING and seconds is not None:
            return min(seconds, float(thing["metadata"].get("deletionGracePeriodSeconds") or 0))
        return seconds


def pod_stage(pod: Raw, node: Raw | None) -> Stage | None:
    """What the kubelet waits for with this pod, None for nothing. `node` is the one it is bound to, if it exists."""
    if not pod["spec"].get("nodeName"):
        return None
    if _stopped(pod):
        return None
    if node is None:
        return Stage.ORPHANED
    if pod["metadata"].get("deletionTimestamp"):
        return Stage.STOPPING
    if finished(pod) or not is_ready(node):
        return None
    if (pod.get("status") or {}).get("phase") != "Running":
        return Stage.STARTING
    return None if is_ready(pod) else Stage.WARMING


def tolerated_for(pod: Raw, node: Raw) -> float | None:
    """Seconds that the node's NoExecute taints leave the pod there: 0 for one that it does not tolerate, None for ever.

    As the taint eviction controller counts: of the tolerations that cover a taint the shortest `tolerationSeconds`.
    """
    left: list[float] = []
    for taint in taints_of(node):
        if taint.effect == "NoExecute":
            covering = [each for each in pod["spec"].get("tolerations") or () if toleration(each).covers(taint)]
            limits = [max(float(each["tolerationSeconds"]), 0.0) for each in covering if "tolerationSeconds" in each]
            left += limits if covering else [0.0]
    return min(left, default=None)


def node_stage(node: Raw) -> Stage | None:
    """What the kubelet waits for with its node. One that was made not Ready on purpose is left so."""
    if condition(node, "Ready") is None:
        return Stage.JOINING
    return Stage.BEATING if is_ready(node) else None


def lifecycle_taints(node: Raw) -> list[Object]:
    """The node's taints with exactly the marks that its Ready condition asks for; foreign ones keep their order."""
    standing = list((node.get("spec") or {}).get("taints") or ())
    ready = condition(node, "Ready") or {"status": "False"}
    wanted = {"True": None, "False": NOT_READY}.get(ready["status"], UNREACHABLE)
    kept = [taint for taint in standing if taint["key"] not in {NOT_READY, UNREACHABLE} or taint["key"] == wanted]
    if wanted and not any(taint["key"] == wanted for taint in kept):
        kept.append({"key": wanted, "effect": "NoSchedule"})
    return kept


def condition(thing: Raw, kind: str) -> Raw | None:
    """The status condition of that type."""
    for each in (thing.get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return dict(each)
    return None


def is_ready(thing: Raw) -> bool:
    """Whether a node's, or pod's, Ready condition is True."""
    ready = condition(thing, "Ready")
    return ready is not None and ready["status"] == "True"


def with_conditions(status: Raw, now: str, conditions: Mapping[str, str]) -> Object:
    """The status with these condition types at these values; the transition time moves only with the value."""
    listed = {each["type"]: each for each in status.get("conditions") or ()}
    for kind, value in conditions.items():
        if listed.get(kind, {}).get("status") != value:
            listed[kind] = {"type": kind, "status": value, "lastTransitionTime": now}
    return {**status, "conditions": list(listed.values())}


class Kubelet:
    """Runs the kubelets of all nodes. `pod_network` is where pod addresses come from."""

    def __init__(
        self,
        storage: Storage,
        timings: Timings = Timings(),
        pod_network: IPv4Network = IPv4Network("10.244.0.0/16"),  # noqa: B008 - frozen
    ) -> None:
        self._storage = storage
        self._timings = timings
        self._addresses = _endless(pod_network)
        # When each object (by uid) was first seen in a stage that it is still in; loop time.
        self._since: dict[tuple[str, Stage], float] = {}

    async def run(self) -> Never:
        await react(self._storage, self.step, NODES, PODS)

    def step(self) -> float | None:
        """Does what is due; returns the seconds until the next is."""
        before, self._since = self._since, {}
        waits: list[float | None] = []
        for node in list(self._storage.scan(NODES)):
            stage = node_stage(node.body)
            waits.append(self._advance(node, stage, self._duration(stage, node.body), before))
            self._taint(node.name)
        for pod in list(self._storage.scan(PODS)):
            host = self._storage.peek(NODES, pod.body["spec"].get("nodeName") or "")
            stage = pod_stage(pod.body, host.body if host else None)
            waits.append(self._advance(pod, stage, self._duration(stage, pod.body), before))
            if host is not None and not pod.deleting:
                waits.append(self._advance(pod, Stage.EXPELLED, tolerated_for(pod.body, host.body), before))
        return soonest(*waits)

    def _duration(self, stage: Stage | None, thing: Raw) -> float | None:
        return None if stage is None else self._timings.of(stage, thing)

    def _advance(
        self, thing: Stored, stage: Stage | None, lasts: float | None, before: Mapping[tuple[str, Stage], float]
    ) -> float | None:
        """Finishes the stage when it is over; else remembers since when it lasts and returns what is left of it."""
        if stage is None or lasts is None:
            return None
        now = self._storage.clock.monotonic()
        since = before.get((thing.uid, stage), now)
        left = since + lasts - now
        if left > _EARLY:
            self._since[thing.uid, stage] = since
            return left
        self._finish(thing, stage)
        return lasts if stage is Stage.BEATING else None

    def _finish(self, thing: Stored, stage: Stage) -> None:
        match stage:
            case Stage.JOINING:
                self._change_node(thing, self._joined)
            case Stage.BEATING:
                self._change_node(thing, self._beaten)
            case Stage.STARTING:
                self._change_pod(thing, self._started)
            case Stage.WARMING:
                self._change_pod(thing, self._warmed)
            case Stage.STOPPING | Stage.ORPHANED:
                self._remove(thing)
            case Stage.EXPELLED:
                self._storage.delete(PODS, thing.name, thing.namespace, Deletion(uid=thing.uid))

    def _taint(self, node: str) -> None:
        body = self._storage.find(NODES, node).body
        taints = lifecycle_taints(body)
        if taints != ((body.get("spec") or {}).get("taints") or []):
            self._storage.modify(NODES, node, "", lambda body: _with_taints(body, taints), _LIFECYCLE)

    def _remove(self, pod: Stored) -> None:
        """Ends the pod for good; one with finalizers stays, stopped, until these are gone."""
        if pod.body["metadata"].get("finalizers"):
            self._change_pod(pod, _ended)
        self._storage.delete(PODS, pod.name, pod.namespace, Deletion(grace_seconds=0, uid=pod.uid))

    def _joined(self, node: Object) -> Object:
        status = with_conditions(
            node.get("status") or {},
            self._storage.now(),
            {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"},
        )
        return {**node, "status": status}

    def _beaten(self, node: Object) -> Object:
        for each in node["status"]["conditions"]:
            if each["type"] == "Ready":
                each["lastHeartbeatTime"] = self._storage.now()
        return node

    def _started(self, pod: Object) -> Object:
        now, address = self._storage.now(), str(next(self._addresses))
        status = {
            **(pod.get("status") or {}),
            "phase": "Running",
            "startTime": now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "containerStatuses": _container_statuses(pod, now, ready=False),
        }
        conditions = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": "False", "Ready": "False"}
        return {**pod, "status": with_conditions(status, now, conditions)}

    def _warmed(self, pod: Object) -> Object:
        started = pod["status"].get("startTime") or self._storage.now()
        status = {**pod["status"], "containerStatuses": _container_statuses(pod, started, ready=True)}
        ready = {"ContainersReady": "True", "Ready": "True"}
        return {**pod, "status": with_conditions(status, self._storage.now(), ready)}

    def _change_node(self, node: Stored, change: Change) -> None:
        self._storage.modify(NODES, node.name, "", change, _NODE_STATUS)

    def _change_pod(self, pod: Stored, change: Change) -> None:
        self._storage.modify(PODS, pod.name, pod.namespace, change, _POD_STATUS)


def _stopped(pod: Raw) -> bool:
    """Whether nothing of the pod runs any more and only finalizers hold the object."""
    metadata = pod["metadata"]
    return bool(metadata.get("deletionTimestamp")) and not metadata.get("deletionGracePeriodSeconds")


def _ended(pod: Object) -> Object:
    pod["status"] = {**(pod.get("status") or {}), "phase": "Failed"}
    return pod


def _with_taints(node: Object, taints: list[Object]) -> Object:
    spec = {key: value for key, value in (node.get("spec") or {}).items() if key != "taints"}
    return {**node, "spec": {**spec, "taints": taints} if taints else spec}


def _container_statuses(pod: Raw, started: str, *, ready: bool) -> list[Object]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": started}},
        }
        for container in pod["spec"].get("containers") or ()
    ]


def _endless(network: IPv4Network) -> Iterator[IPv4Address]:
    """Every address of the network, again and again."""
    while True:
        yield from network.hosts()
