"""Runs the StatefulSet, Deployment and ReplicaSet controllers and carries out what they want."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Never

from ebbtide.sim.actors import deployment, statefulset
from ebbtide.sim.actors.reaction import react
from ebbtide.sim.actors.replication import Plan, controller_uid
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import DEPLOYMENTS, PERSISTENT_VOLUME_CLAIMS, PODS, REPLICA_SETS, STATEFUL_SETS, Kind
from ebbtide.sim.refusals import Refusal
from ebbtide.sim.storage import Storage, Write
from ebbtide.sim.stored import Object, Stored

_WRITES = Write("kube-controller-manager")
_STATUS = Write("kube-controller-manager", "status")

Owned = dict[str, list[Object]]


class Workloads:
    """All three controllers. What they read is live, so none of them ever acts on an outdated count."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def run(self) -> Never:
        await react(self._storage, self.step, STATEFUL_SETS, DEPLOYMENTS, REPLICA_SETS, PODS, PERSISTENT_VOLUME_CLAIMS)

    def step(self) -> None:
        """One reconcile of every workload; what it changes leads to the next."""
        self._reconcile(STATEFUL_SETS, PODS, self._plan_stateful_set)
        self._reconcile(DEPLOYMENTS, REPLICA_SETS, deployment.plan_deployment)
        self._reconcile(REPLICA_SETS, PODS, deployment.plan_replica_set)

    def _reconcile(self, kind: Kind, parts: Kind, plan: Callable[[Object, list[Object]], Plan]) -> None:
        workloads = list(self._storage.scan(kind))
        if not workloads:
            return
        owned = self._by_controller(parts)
        for workload in workloads:
            self._carry_out(workload, plan(workload.body, owned.get(workload.uid, [])))

    def _plan_stateful_set(self, stateful_set: Object, pods: list[Object]) -> Plan:
        claims: Iterator[Object] = iter(())
        if stateful_set["spec"].get("volumeClaimTemplates"):
            namespace = stateful_set["metadata"]["namespace"]
            claims = (claim.body for claim in self._storage.scan(PERSISTENT_VOLUME_CLAIMS, namespace))
        return statefulset.plan(stateful_set, pods, claims)

    def _by_controller(self, kind: Kind) -> Owned:
        found: Owned = defaultdict(list)
        for thing in self._storage.scan(kind):
            uid = controller_uid(thing.body)
            if uid:
                found[uid].append(thing.body)
        return found

    def _carry_out(self, workload: Stored, plan: Plan) -> None:
        for kind, body in plan.update:
            self._storage.update(kind, body, _WRITES)
        for kind, thing in plan.delete:
            metadata = thing["metadata"]
            self._storage.delete(kind, metadata["name"], metadata["namespace"], Deletion(uid=metadata["uid"]))
        for kind, body in plan.create:
            if not self._created(kind, body):
                break
        self._storage.modify(workload.kind, workload.name, workload.namespace, _with_status(plan.status), _STATUS)

    def _created(self, kind: Kind, body: Object) -> bool:
        """Whether the object could be made: its name may be taken, its namespace going, its template unusable."""
        try:
            self._storage.create(kind, body, _WRITES)
        except Refusal:
            return False
        return True


def _with_status(status: Any) -> Callable[[Object], Object]:
    return lambda body: {**body, "status": {**body.get("status", {}), **status}}
