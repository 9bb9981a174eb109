"""Writes the chronicle: what changes on the cluster, what the autoscaler decides, what the reconciler logs.

It only watches. Changes come from the cluster's storage, in order; decisions from the autoscaler's diary; the answers
to evictions and the states of zones from the log lines that an operator would read.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from ebbtide import vocabulary
from ebbtide.cli.demo.chronicle import Chronicle, Moment, What
from ebbtide.cli.demo.scene import CellView, Phase, is_prevented, is_signalled, phase_of
from ebbtide.sim.actors.autoscaler import Entry
from ebbtide.sim.actors.growth import Growth
from ebbtide.sim.actors.kubelet import condition, is_ready
from ebbtide.sim.kinds import EVENTS, NODES, PODS
from ebbtide.sim.storage import Storage
from ebbtide.sim.stored import Event, Stored

Raw = Mapping[str, Any]


class Observer:
    """Notes into `chronicle` from now on; times count from the moment it was made. `diary` is the autoscaler's."""

    def __init__(self, storage: Storage, diary: Sequence[Entry], chronicle: Chronicle) -> None:
        self._storage = storage
        self._diary = diary
        self.chronicle = chronicle
        self._began = storage.clock.now()
        self._zones: dict[str, str] = {}
        self._read = len(diary)
        self._serving = {pod.uid: pod for pod in storage.scan(PODS) if _serves(pod)}
        self.signal_since: dict[str, float] = {}
        self.held_back: dict[str, str] = {}
        self.cells: dict[tuple[str, str], CellView] = {}
        for node in storage.scan(NODES):
            self._zones[node.name] = _zone(node)
        self._subscription = storage.subscribe(self._changed, NODES, PODS, EVENTS, replay=False)

    @property
    def elapsed(self) -> float:
        """Seconds since the curtain rose."""
        return self._storage.clock.now() - self._began

    def close(self) -> None:
        self.read_diary()
        self._subscription.close()

    def scripted(self, what: What, words: str) -> None:
        """The script moves the world."""
        self._note(what, "script", words=words)

    def read_diary(self) -> None:
        """Notes what the autoscaler has decided since the last time."""
        for entry in list(self._diary)[self._read :]:
            self._read += 1
            at, decision = entry.at - self._began, entry.decision
            if isinstance(decision, Growth):
                self._note(What.GREW, decision.grown, at=at, words=_reasons(decision))
            else:
                self._note(What.SHRANK, decision.node, at=at, words=str(decision))

    # --- the cluster ---------------------------------------------------------------------------------------------

    def _changed(self, event: Event) -> None:
        self.read_diary()
        before, after = event.before, None if event.type == "DELETED" else event.stored
        if event.kind is NODES:
            self._node(event.stored, before, after)
        elif event.kind is PODS:
            self._pod(event.stored, before, after)
        elif before is None:
            body = event.stored.body
            kind = What.WARNING if body.get("type") == "Warning" else What.EVENT
            self._note(kind, body["reason"], node=body["regarding"]["name"], words=body.get("note", ""))

    def _node(self, node: Stored, before: Stored | None, after: Stored | None) -> None:
        self._zones[node.name] = _zone(node)
        if before is None:
            self._note_node(What.NODE_ADDED, node)
        self._marks(node, before, after)
        if after is not None and is_ready(after.body) and not (before is not None and is_ready(before.body)):
            self._note_node(What.NODE_READY, node)
        if after is None:
            self._node_gone(node)

    def _marks(self, node: Stored, before: Stored | None, after: Stored | None) -> None:
        signalled = after is not None and is_signalled(after.body)
        if signalled and node.name not in self.signal_since:
            self.signal_since[node.name] = self._storage.clock.now()
            self._note_node(What.SIGNALLED, node)
        if not signalled and self.signal_since.pop(node.name, None) is not None and after is not None:
            self._note_node(What.SIGNAL_GONE, node)
        was, has = (each is not None and is_prevented(each.body) for each in (before, after))
        if has and not was:
            self._note_node(What.TAINTED, node)
        if was and not has and after is not None:
            self._note_node(What.UNTAINTED, node)

    def _node_gone(self, node: Stored) -> None:
        """Its pods do not serve any longer, although their objects stay for a while."""
        killed = [pod for pod in self._serving.values() if pod.body["spec"].get("nodeName") == node.name]
        self._note(
            What.NODE_GONE,
            node.name,
            zone=_zone(node),
            words=" ".join(sorted(pod.name for pod in killed)),
        )
        for pod in killed:
            self._away(pod)

    def _pod(self, pod: Stored, before: Stored | None, after: Stored | None) -> None:
        if before is None:
            self._note_pod(What.POD_ADDED, pod)
        if _refusal(after) and not _refusal(before):
            self._note_pod(What.POD_WAITS, pod, _refusal(after))
        if _host(after) and not _host(before):
            self._note_pod(What.POD_PLACED, pod)
        serves = after is not None and _serves(after) and self._storage.peek(NODES, _host(after)) is not None
        if serves and pod.uid not in self._serving:
            self._note_pod(What.POD_SERVES, pod)
        if serves:
            self._serving[pod.uid] = pod
        elif pod.uid in self._serving:
            self._away(pod)

    def _away(self, pod: Stored) -> None:
        del self._serving[pod.uid]
        self._note_pod(What.POD_AWAY, pod)

    def _note_node(self, what: What, node: Stored) -> None:
        self._note(what, node.name, zone=_zone(node), node=node.name)

    def _note_pod(self, what: What, pod: Stored, words: str = "") -> None:
        host = _host(pod)
        self._note(what, pod.name, zone=self._zones.get(host, ""), node=host, slot=slot_of(pod.body), words=words)

    def _note(self, what: What, who: str, words: str = "", *, at: float | None = None, **details: str) -> None:
        self.chronicle.note(Moment(self.elapsed if at is None else at, what, who, words=words, **details))

    # --- the reconciler's log ------------------------------------------------------------------------------------

    def heard(self, line: Raw) -> None:
        """One line of the reconciler's log."""
        self.read_diary()
        if line.get("level") in ("warning", "error", "critical"):
            self._note(What.TROUBLE, line.get("logger", ""), words=_summary(line))
        elif line["event"] == "eviction":
            self._eviction_answered(line)
        elif line["event"] == "zone state":
            self._zone_changed(line)
        elif line["event"] in _WORKER_LINES:
            self._note(*_WORKER_LINES[line["event"]](line))

    def _zone_changed(self, line: Raw) -> None:
        group, _, zone = line["zone"].partition("/")
        self.cells[group, zone] = CellView(group, zone, line["state"], line["why"], line["reason"], self.elapsed)
        words = "; ".join(dict.fromkeys((line["why"], line["reason"])))
        self._note(What.ZONE, line["state"], zone=line["zone"], words=words)

    def _eviction_answered(self, line: Raw) -> None:
        pod, node = line["pod"].rpartition("/")[2], line["node"]
        refused = {moment.who for moment in self.chronicle.of(What.REFUSED)}
        kinds = {"accepted": What.EVICTED, "budget": What.REFUSED_AGAIN if pod in refused else What.REFUSED}
        kind = kinds.get(line["result"])
        if kind is not None:
            self._note(kind, pod, zone=self._zones.get(node, ""), node=node, words=line.get("answer", ""))
        self.held_back.pop(pod, None)
        if line["result"] == "budget":
            self.held_back[pod] = line["answer"]


class LogReader(io.StringIO):
    """A stream for a log in JSON: hands each line to `hear` as an object."""

    def __init__(self, hear: Callable[[Raw], None]) -> None:
        super().__init__()
        self._hear = hear
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(None, lines):
            self._hear(orjson.loads(line))
        return len(text)


def slot_of(pod: Raw) -> str:
    """The pod's place in its workload: the name under a StatefulSet, else the application's name."""
    owners: Iterable[Raw] = pod["metadata"].get("ownerReferences") or ()
    if any(owner["kind"] == "StatefulSet" for owner in owners):
        return str(pod["metadata"]["name"])
    return str((pod["metadata"].get("labels") or {}).get("app", pod["metadata"]["name"]))


def _serves(pod: Stored) -> bool:
    return phase_of(pod.body) is Phase.SERVING


def _zone(node: Stored) -> str:
    return str((node.body["metadata"].get("labels") or {}).get(vocabulary.ZONE_LABEL, ""))


def _host(pod: Stored | None) -> str:
    return str(pod.body["spec"].get("nodeName") or "") if pod is not None else ""


_WORKER_LINES: Final[Mapping[str, Callable[[Raw], tuple[What, str, str]]]] = {
    "worker removed": lambda line: (What.WORKER_REMOVED, line["worker"], line["reason"]),
    "shared pool grown": lambda line: (What.POOL_TOLD, "pool", f"{line['before']} → {line['replicas']}: {line['why']}"),
    "shared pool shrunk": lambda line: (What.POOL_TOLD, "pool", f"{line['before']} → {line['replicas']}"),
}


def _refusal(pod: Stored | None) -> str:
    said = condition(pod.body, "PodScheduled") if pod is not None else None
    return str(said.get("message", "")) if said is not None and said["status"] == "False" else ""


def _reasons(growth: Growth) -> str:
    """How much the chosen group grows, and what the autoscaler says against the others."""
    chosen = [
        f"by {growth.nodes} for {len(growth.waiting)} waiting (template: {each.source})"
        for each in growth.considered
        if each.group == growth.grown
    ]
    others = [
        f"not {each.group}: {each.against} (template: {each.source})" for each in growth.considered if each.against
    ]
    return "; ".join((*chosen, *others))


def _summary(line: Raw) -> str:
    details = (f"{key}={value}" for key, value in line.items() if key not in ("event", "level", "logger", "timestamp"))
    return " ".join((line["event"], *details))[:300]
