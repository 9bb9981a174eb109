"""What must hold of every deletion of a waiting pod."""

from collections.abc import Iterator

from ebbtide.sim.kinds import PODS
from ebbtide.sim.stored import Event, Object, Stored
from tests.simulation.facts import SLACK, Facts
from tests.simulation.guarded import carried, set_of
from tests.simulation.oracle import exclusion
from tests.simulation.stage import Stage
from tests.simulation.wiretap import Request

# Seconds: for so long nothing about zones changes before a pod is deleted for them, and no second pod of an owner goes
# before its first one is replaced.
SETTLED = 3.0
REPLACED_WITHIN = 60.0
MOST_PER_SECOND = 5


class Deletions:
    """Remembers which pods have ever had a node, and what was deleted."""

    def __init__(self, stage: Stage, facts: Facts) -> None:
        self.accepted = 0
        self._stage = stage
        self._facts = facts
        self._had_a_node: set[str] = set()
        self._gone: set[str] = set()
        self._asked: list[tuple[str, float]] = []
        # By replica and owner: when a pod of it was deleted that has no successor yet.
        self._open: dict[tuple[str, str], float] = {}
        stage.storage.listen(self._pod_changed, PODS)

    def arrived(self, request: Request, *, calm: bool) -> Iterator[str]:
        """What is wrong with it; `calm` when replicas must know how things are."""
        conditions = request.document.get("preconditions") or {}
        if not conditions.get("uid") or not conditions.get("resourceVersion"):
            yield f"{request.path} is deleted whatever it is by now"
            return
        yield from self._too_fast(request)
        _, _, _, _, namespace, _, name = request.path.split("/")
        pod = self._stage.storage.peek(PODS, name, namespace)
        if conditions["uid"] in self._gone:
            yield f"{name} is deleted again after its deletion was accepted"
        if pod is None or (pod.uid, str(pod.version)) != (conditions["uid"], conditions["resourceVersion"]):
            return
        reason = self._stays(pod) or (calm and self._is_right(request, pod))
        if reason:
            yield f"{name} is deleted: {reason}"

    def answered(self, request: Request) -> None:
        if request.status != 200:
            return
        self.accepted += 1
        self._gone.add(request.document["preconditions"]["uid"])

    def _too_fast(self, request: Request) -> Iterator[str]:
        self._asked.append((request.who, request.time))
        lately = sum(who == request.who and request.time - time < 1.0 for who, time in self._asked)
        if lately > MOST_PER_SECOND:
            yield f"{request.who} deletes {lately} pods within a second"

    def _stays(self, pod: Stored) -> str:
        """Why this pod may never be deleted, whatever it carries."""
        found = set_of(pod)
        if pod.uid in self._had_a_node:
            return "it has had a node"
        if found is None:
            return "nobody makes it anew"
        return found.kept

    def _is_right(self, request: Request, pod: Stored) -> str:
        """Why everybody should know that this pod stays now."""
        found = set_of(pod)
        assert found is not None
        if self._facts.webhook_is_away():
            return "no webhook is registered"
        if self._facts.namespace_is_ignored(found.namespace):
            return "its namespace is to be left alone"
        if self._facts.zones_changed(found.group, within=SETTLED - SLACK):
            return "its zones have just changed"
        right = exclusion(self._stage.storage, found.group)
        if self._facts.zones_are_known(found.group) and carried(pod.body) == right:
            return "it carries what it should"
        last = self._open.get((request.who, found.name))
        if last is not None and self._stage.time - last < REPLACED_WITHIN - SLACK:
            return "another pod of its owner is not replaced yet"
        return ""

    def _pod_changed(self, event: Event) -> None:
        pod, found = event.stored, set_of(event.stored)
        if _has_a_node(pod.body):
            self._had_a_node.add(pod.uid)
        if found is None:
            return
        if event.type == "ADDED":
            for key in [key for key in self._open if key[1] == found.name]:
                del self._open[key]
        cause = self._stage.journal.changes[-1].cause
        if event.type == "DELETED" and cause is not None and cause.method == "DELETE":
            self._open[cause.who, found.name] = self._stage.time


def _has_a_node(pod: Object) -> bool:
    status = pod.get("status") or {}
    bound = any(each["type"] == "PodScheduled" and each["status"] == "True" for each in status.get("conditions") or ())
    return bound or bool(pod["spec"].get("nodeName") or status.get("containerStatuses"))
