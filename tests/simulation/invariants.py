"""What must hold at every moment, whatever happens: checked at each request that arrives and each change it makes."""

from fnmatch import fnmatchcase

from ebbtide import vocabulary
from ebbtide.sim.kinds import LEASES, NAMESPACES, NODES, PODS
from ebbtide.sim.stored import Event, Object, Stored
from tests.simulation import notation
from tests.simulation.events import QUIET_NAMESPACE, is_signalled
from tests.simulation.oracle import cells, is_ignored, must_stay
from tests.simulation.stage import NAMESPACE, Stage
from tests.simulation.wiretap import EVENT_PATH, EVICTION_PATH, LEASE_PATH, NODE_PATH, POD_PATH, Change, Request

# A fact that is older than this has reached every replica whose watches work; seconds.
SLACK = 0.1


class Invariants:
    """Collects violations in `broken`.

    Until the loop time `turbulent_until` some request or watch may be late, so that replicas cannot know everything.
    """

    def __init__(self, stage: Stage) -> None:
        self.broken: list[str] = []
        self.turbulent_until = 0.0
        self.zone_vanished = False
        self._stage = stage
        self._accepted: set[str] = set()
        self._renewed: dict[str, float] = {}
        self._quiet_changed = 0.0
        stage.journal.watchers.append(self)
        stage.storage.listen(self._node_changed, NODES)
        stage.storage.listen(self._namespace_changed, NAMESPACES)

    def check_changes(self, changes: list[Change]) -> None:
        """Looks at what was stored: of what replicas change, only their own marks on nodes are theirs."""
        for change in changes:
            if (
                change.cause is not None
                and change.event.kind is NODES
                and _without_marks(change.before) != (_without_marks(change.after))
            ):
                self._say(f"{change.cause.who} changed more than its own marks on {change.name}")

    # --- requests ----------------------------------------------------------------------------------------------

    def arrived(self, request: Request) -> None:
        if not request.writes or fnmatchcase(request.path, LEASE_PATH):
            return
        self._check_leader(request)
        if request.matches("POST", EVICTION_PATH):
            self._check_eviction(request)
        elif request.matches("PATCH", NODE_PATH):
            self._check_node_write(request)
        elif request.matches("DELETE", POD_PATH):
            self._check_deletion(request)
        elif not request.matches("POST", EVENT_PATH):
            self._say(f"unexpected {request.method} {request.path}")

    def answered(self, request: Request) -> None:
        if request.status not in (200, 201) or not request.writes:
            return
        if fnmatchcase(request.path, LEASE_PATH) and request.document["spec"].get("holderIdentity") == request.who:
            self._renewed[request.who] = request.time
        if request.matches("POST", EVICTION_PATH):
            self._accepted.add(request.uid)

    def _check_leader(self, request: Request) -> None:
        lease = self._stage.storage.peek(LEASES, "ebbtide-reconciler", NAMESPACE)
        holder = lease.body["spec"].get("holderIdentity") if lease else None
        if holder != request.who:
            self._say(f"{request.who} writes to {request.path} while {holder} holds the lease")
        deadline = self._stage.settings.leader_election.renew_deadline
        if request.time >= self._renewed.get(request.who, float("-inf")) + deadline:
            self._say(f"{request.who} writes to {request.path} after its renew deadline")

    def _check_node_write(self, request: Request) -> None:
        """Decision 4: a write of a node is valid only for what was seen of it."""
        operations = request.document
        if not isinstance(operations, list):
            self._say(f"{request.node} is written with something else than a JSON patch")
        elif not any(_ties_to_what_was_seen(operation) for operation in operations):
            self._say(f"{request.node} is written whatever it is by now: {operations}")

    def _check_deletion(self, request: Request) -> None:
        """Only a pod that waits for a node, and that somebody makes anew, may be deleted."""
        uid = request.document["preconditions"]["uid"]
        pod = self._stage.storage.peek(PODS, request.path.split("/")[-1], request.path.split("/")[4])
        if pod is None or pod.uid != uid:
            return
        owners = pod.body["metadata"].get("ownerReferences") or []
        if not any(owner.get("controller") for owner in owners):
            self._say(f"{pod.name} is deleted and nobody makes it anew")
        bound_at = request.document["preconditions"].get("resourceVersion")
        if pod.body["spec"].get("nodeName") and bound_at in (None, str(pod.version)):
            self._say(f"{pod.name} is deleted on {pod.body['spec']['nodeName']}")

    # --- evictions ---------------------------------------------------------------------------------------------

    def _check_eviction(self, request: Request) -> None:
        if request.uid in self._accepted:
            self._say(f"{request.pod} is evicted again after its eviction was accepted")
        if "gracePeriodSeconds" in request.document["deleteOptions"]:
            self._say(f"{request.pod} is given a grace period")
        pod = self._stage.storage.peek(PODS, request.pod, request.path.split("/")[4])
        if pod is None or pod.uid != request.uid:
            return
        reason = must_stay(pod.body, bare_too=self._stage.settings.node_rebalance.evict_bare_pods)
        if not reason and self._stage.time > self.turbulent_until:
            reason = self._has_long_been_safe(pod)
        if reason:
            self._say(f"{pod.name} on {pod.body['spec']['nodeName']} is evicted: {reason}")

    def _has_long_been_safe(self, pod: Stored) -> str:
        """Why everybody should know by now that this pod stays, "" if they need not."""
        versions = self._lately(pod.name, PODS, pod)
        if all(version["metadata"].get("deletionTimestamp") for version in versions):
            return "it is terminating"
        if all(version["status"].get("phase") in ("Succeeded", "Failed") for version in versions):
            return "it has finished"
        quiet = is_ignored(self._stage.storage.find(NAMESPACES, QUIET_NAMESPACE).body)
        if pod.namespace == QUIET_NAMESPACE and quiet and self._stage.time - self._quiet_changed > SLACK:
            return "its namespace is to be left alone"
        return self._node_is_no_danger(pod.body["spec"]["nodeName"])

    def _node_is_no_danger(self, name: str) -> str:
        node = self._stage.storage.peek(NODES, name)
        if node is None:
            return ""
        versions = self._lately(name, NODES, node)
        if not any(is_signalled(version) for version in versions):
            return "its node is not signalled"
        if all("deletionTimestamp" in version["metadata"] for version in versions):
            return "its node is being deleted"
        return ""

    def _lately(self, name: str, kind: object, now: Stored) -> list[Object]:
        """The object as it is, and as it was at any moment within the slack."""
        versions = [now.body]
        for change in reversed(self._stage.journal.changes):
            if change.time < self._stage.time - SLACK:
                break
            if change.name == name and change.event.kind is kind and change.before:
                versions.append(change.before)
        return versions

    # --- what others do ----------------------------------------------------------------------------------------

    def _node_changed(self, _: Event) -> None:
        known = cells(self._stage.storage)
        self._known = getattr(self, "_known", known)
        self.zone_vanished = self.zone_vanished or not self._known.keys() <= known.keys()
        self._known = known

    def _namespace_changed(self, event: Event) -> None:
        if event.stored.name == QUIET_NAMESPACE:
            self._quiet_changed = self._stage.time

    def _say(self, what: str) -> None:
        self.broken.append(f"{self._stage.time:.3f}: {what}")


def _ties_to_what_was_seen(operation: Object) -> bool:
    """Whether the server refuses a patch with this line when the node's taints are not those that were seen."""
    if (operation["op"], operation["path"]) == ("replace", "/metadata/resourceVersion"):
        return bool(operation["value"])
    return (operation["op"], operation["path"]) == ("test", "/spec/taints")


def _without_marks(node: Object) -> Object:
    """A node without what is ours on it; two such are equal when nothing else differs, order of taints included."""
    metadata = {key: value for key, value in node["metadata"].items() if key not in ("resourceVersion", "annotations")}
    annotations = dict(node["metadata"].get("annotations") or {})
    annotations.pop(vocabulary.FIRST_SEEN_ANNOTATION, None)
    spec = {key: value for key, value in node["spec"].items() if key != "taints"}
    return {**node, "metadata": {**metadata, "annotations": annotations}, "spec": spec, "taints": notation.others(node)}
