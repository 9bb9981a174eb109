"""How things stand at one moment: small frozen values that a picture can be drawn from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ebbtide import vocabulary
from ebbtide.cli.demo.load.scene import LoadScene
from ebbtide.model import parse_time
from ebbtide.sim.actors.growth import Growth
from ebbtide.sim.actors.kubelet import condition, is_ready

Raw = Mapping[str, Any]


class Phase(Enum):
    """What a pod does."""

    WAITING = auto()
    STARTING = auto()
    SERVING = auto()
    LEAVING = auto()


@dataclass(frozen=True, slots=True)
class PodView:
    """`moved` is the seconds since it was put where it is; `refusal` is the scheduler's word on a pod that waits."""

    name: str
    app: str
    phase: Phase
    moved: float = 0.0
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """`signal_age` is None without a signal. `leaving`: the autoscaler removes it, or it is being deleted."""

    name: str
    group: str
    zone: str
    signal_age: float | None = None
    prevented: bool = False
    cordoned: bool = False
    ready: bool = True
    leaving: bool = False
    age: float = 0.0
    pods: tuple[PodView, ...] = ()


@dataclass(frozen=True, slots=True)
class CellView:
    """What the reconciler says of a node group in a zone.

    `why` is the reason for what it should be, `reason` the one for what it is; `since` in seconds since the curtain
    rose.
    """

    group: str
    zone: str
    state: str
    why: str = ""
    reason: str = ""
    since: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.group}/{self.zone}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The autoscaler's last decision about growing, and when."""

    at: float
    growth: Growth


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the picture shows but the time line. `at` is seconds since the curtain rose.

    `serving` counts pods that serve, `wanted` those that the workloads ask for. `ordered` are nodes that the cloud
    was asked for and that have not arrived, by zone. `held_back` are pods whose eviction was refused last, with the
    answer. `load` is None where no data is loaded.
    """

    at: float
    zones: tuple[str, ...]
    nodes: tuple[NodeView, ...] = ()
    waiting: tuple[PodView, ...] = ()
    cells: tuple[CellView, ...] = ()
    choice: Choice | None = None
    ordered: Mapping[str, int] = field(default_factory=dict)
    held_back: Mapping[str, str] = field(default_factory=dict)
    serving: int = 0
    wanted: int = 0
    load: LoadScene | None = None

    def in_zone(self, zone: str) -> tuple[NodeView, ...]:
        return tuple(node for node in self.nodes if node.zone == zone)

    def zone_of(self, pod: str) -> str:
        """The zone that the pod is in, empty for one that waits or does not exist."""
        return next((node.zone for node in self.nodes for each in node.pods if each.name == pod), "")

    def state_of(self, group: str, zone: str) -> str:
        return next((cell.state for cell in self.cells if (cell.group, cell.zone) == (group, zone)), "")


def node_views(
    nodes: Iterable[Raw], pods: Iterable[Raw], signal_since: Mapping[str, float], now: float
) -> tuple[NodeView, ...]:
    """The nodes by age, then name, with their pods. `signal_since` is by node name, like `now` in epoch seconds."""
    on_node: dict[str, list[PodView]] = {}
    for pod in pods:
        on_node.setdefault(pod["spec"].get("nodeName") or "", []).append(pod_view(pod, now))
    views = [node_view(node, tuple(on_node.get(node["metadata"]["name"], ())), signal_since, now) for node in nodes]
    return tuple(sorted(views, key=lambda node: (node.group, -round(node.age), node.name)))


def node_view(node: Raw, pods: tuple[PodView, ...], signal_since: Mapping[str, float], now: float) -> NodeView:
    metadata, spec = node["metadata"], node.get("spec") or {}
    labels = metadata.get("labels") or {}
    taints = {taint["key"] for taint in spec.get("taints") or ()}
    since = signal_since.get(metadata["name"])
    return NodeView(
        name=metadata["name"],
        group=labels.get(vocabulary.NODE_GROUP_LABEL, ""),
        zone=labels.get(vocabulary.ZONE_LABEL, ""),
        signal_age=None if since is None or not is_signalled(node) else now - since,
        prevented=is_prevented(node),
        cordoned=bool(spec.get("unschedulable")),
        ready=is_ready(node),
        leaving="deletionTimestamp" in metadata or vocabulary.TO_BE_DELETED_TAINT_KEY in taints,
        age=now - (parse_time(metadata["creationTimestamp"]) or now),
        pods=tuple(sorted(pods, key=lambda pod: (pod.app, pod.name))),
    )


def pod_view(pod: Raw, now: float) -> PodView:
    scheduled = condition(pod, "PodScheduled") or {}
    moved = now - (parse_time(scheduled.get("lastTransitionTime")) or now)
    refusal = scheduled.get("message", "") if scheduled.get("status") == "False" else ""
    labels = pod["metadata"].get("labels") or {}
    return PodView(pod["metadata"]["name"], labels.get("app", ""), phase_of(pod), moved, refusal)


def phase_of(pod: Raw) -> Phase:
    if "deletionTimestamp" in pod["metadata"]:
        return Phase.LEAVING
    if not pod["spec"].get("nodeName"):
        return Phase.WAITING
    return Phase.SERVING if is_ready(pod) else Phase.STARTING


def is_signalled(node: Raw) -> bool:
    return _has_taint(node, vocabulary.SIGNAL_TAINT_KEY)


def is_prevented(node: Raw) -> bool:
    return _has_taint(node, vocabulary.PREVENT_TAINT_KEY)


def _has_taint(node: Raw, key: str) -> bool:
    return any(taint["key"] == key for taint in (node.get("spec") or {}).get("taints") or ())
