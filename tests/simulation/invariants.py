"""What must hold at every moment, whatever happens: checked at each request that arrives and each change it makes."""

from fnmatch import fnmatchcase

from ebbtide import vocabulary
from ebbtide.sim.kinds import LEASES, NODES, PODS
from ebbtide.sim.stored import Event, Object
from tests.simulation import notation
from tests.simulation.changes import Changes
from tests.simulation.deletions import Deletions
from tests.simulation.facts import Facts
from tests.simulation.oracle import CellName, cells
from tests.simulation.stage import NAMESPACE, Stage
from tests.simulation.stays import Stays
from tests.simulation.wiretap import EVENT_PATH, EVICTION_PATH, LEASE_PATH, NODE_PATH, POD_PATH, Change, Request


class Invariants:
    """Collects violations in `broken`.

    Until the loop time `turbulent_until` some request or watch may be late, so that replicas cannot know everything.
    """

    def __init__(self, stage: Stage) -> None:
        self.broken: list[str] = []
        self.changes = Changes(stage)
        self.turbulent_until = 0.0
        self.zone_vanished = False
        self._stage = stage
        self._accepted: set[str] = set()
        self._renewed: dict[str, float] = {}
        self._holder = ""
        facts = Facts(stage)
        self._stays = Stays(stage, facts)
        self.deletions = Deletions(stage, facts)
        self._known: frozenset[CellName] = frozenset()
        stage.journal.watchers.append(self)
        stage.storage.listen(self._node_changed, NODES)

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
        self.changes.arrived(request)
        if request.matches("POST", EVICTION_PATH):
            self._check_eviction(request)
        elif request.matches("PATCH", NODE_PATH):
            self._check_node_write(request)
        elif request.matches("DELETE", POD_PATH):
            for problem in self.deletions.arrived(request, calm=self._is_calm):
                self._say(problem)
        elif not request.matches("POST", EVENT_PATH):
            self._say(f"unexpected {request.method} {request.path}")

    def answered(self, request: Request) -> None:
        self.changes.answered(request)
        if request.status not in (200, 201) or not request.writes:
            return
        if fnmatchcase(request.path, LEASE_PATH) and request.document["spec"].get("holderIdentity") == request.who:
            self._renewed[request.who] = request.time
            if self._holder != request.who:
                self._holder = request.who
                self._stays.begun[request.who] = request.time
        if request.matches("DELETE", POD_PATH):
            self.deletions.answered(request)
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

    # --- evictions ---------------------------------------------------------------------------------------------

    def _check_eviction(self, request: Request) -> None:
        if request.uid in self._accepted:
            self._say(f"{request.pod} is evicted again after its eviction was accepted")
        if "gracePeriodSeconds" in request.document["deleteOptions"]:
            self._say(f"{request.pod} is given a grace period")
        pod = self._stage.storage.peek(PODS, request.pod, request.path.split("/")[4])
        if pod is None or pod.uid != request.uid:
            return
        reason = self._stays.always(pod)
        if not reason and self._is_calm:
            reason = self._stays.known(request, pod, self.turbulent_until)
        if reason:
            self._say(f"{pod.name} on {pod.body['spec']['nodeName']} is evicted: {reason}")

    @property
    def _is_calm(self) -> bool:
        return self._stage.time > self.turbulent_until

    # --- what others do ----------------------------------------------------------------------------------------

    def _node_changed(self, _: Event) -> None:
        known = frozenset(cells(self._stage.storage))
        self.zone_vanished = self.zone_vanished or not self._known <= known
        self._known = known

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
