"""Guarded pods that wait for a node: who makes them, and the webhook that they pass, as an outsider would write it."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from ebbtide import vocabulary
from ebbtide.sim import objects
from ebbtide.sim.kinds import MUTATING_WEBHOOKS, PODS
from ebbtide.sim.stored import Event, Object, Stored
from tests.simulation.oracle import exclusion
from tests.simulation.pod_events import QUIET_NAMESPACE, owner
from tests.simulation.stage import Stage

WEBHOOK: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "ebbtide-pods", "labels": {"ebbtide/ca-injection": "enabled"}},
    "webhooks": [
        {
            "name": "pods.ebbtide.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:8443/mutate"},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        }
    ],
}
# Seconds until a controller makes a new pod.
_REPLACED_AFTER = 0.3
_TOO_BIG = {"cpu": "64"}


@dataclass(frozen=True, slots=True)
class Set:
    """Pods of one owner. `waits` for ever, since no node is big enough; `kept` says why its pods are never deleted."""

    name: str
    group: str
    pods: int
    waits: bool = True
    kind: str = "CloneSet"
    namespace: str = "default"
    gated: bool = False
    guarded: bool = True

    @property
    def kept(self) -> str:
        if self.kind == "Job":
            return "its Job would count it as failed"
        return "it is gated" if self.gated else "" if self.guarded else "it is not guarded"


SETS = (
    # So many that the pace of deletions matters.
    *(Set(f"big-{number}", "g", 2) for number in range(4)),
    Set("other", "h", 1),
    Set("small", "g", 2, waits=False),
    Set("quiet", "g", 1, namespace=QUIET_NAMESPACE),
    Set("job", "g", 1, kind="Job"),
    Set("gated", "g", 1, gated=True),
    Set("free", "g", 1, guarded=False),
)


class Guarded:
    """The pods of all sets, each of which is made anew when it goes, and the webhook."""

    def __init__(self, stage: Stage) -> None:
        self.webhook_runs = True
        self._stage = stage
        self._made = 0
        stage.storage.listen(self._changed, PODS)

    def set_up(self) -> None:
        """After the nodes; some of the pods came before the webhook did."""
        for each in SETS:
            for number in range(each.pods):
                self.webhook_runs = number > 0
                self._make(each)
        self.register()

    def register(self) -> None:
        self.webhook_runs = True
        if self._stage.storage.peek(MUTATING_WEBHOOKS, WEBHOOK["metadata"]["name"]) is None:
            self._stage.cluster.create(WEBHOOK)

    # --- what happens to the webhook ---------------------------------------------------------------------------

    def stop_or_start(self, _stage: Stage, _rng: Random) -> str:
        self.webhook_runs = not self.webhook_runs
        return f"the webhook {'runs' if self.webhook_runs else 'is away'}"

    def remove_or_register(self, stage: Stage, _rng: Random) -> str:
        if stage.storage.peek(MUTATING_WEBHOOKS, WEBHOOK["metadata"]["name"]) is None:
            self.register()
            return "the webhook is registered"
        stage.storage.delete(MUTATING_WEBHOOKS, WEBHOOK["metadata"]["name"])
        return "the webhook is registered no more"

    # --- what has to be ----------------------------------------------------------------------------------------

    def faults(self) -> Iterator[str]:
        """Waiting pods of a cluster at rest that are not kept out of what they should."""
        for pod in self._stage.storage.scan(PODS):
            found = set_of(pod)
            if found is None or found.kept or found.namespace == QUIET_NAMESPACE or pod.body["spec"].get("nodeName"):
                continue
            if not pod.deleting and carried(pod.body) != (right := exclusion(self._stage.storage, found.group)):
                yield f"pod {pod.name} waits and avoids {carried(pod.body)}, not {right}"

    # --- the controllers ---------------------------------------------------------------------------------------

    def _changed(self, event: Event) -> None:
        found = set_of(event.stored)
        if event.type == "DELETED" and found is not None:
            asyncio.get_running_loop().call_later(_REPLACED_AFTER, self._make, found)

    def _make(self, of: Set) -> None:
        self._made += 1
        plain = objects.pod(f"{of.name}-{self._made}", namespace=of.namespace)
        spec: Object = {"nodeSelector": {vocabulary.NODE_GROUP_LABEL: of.group}}
        if of.waits:
            spec["containers"] = [{"name": "app", "image": "x", "resources": {"requests": _TOO_BIG}}]
        if of.gated:
            spec["schedulingGates"] = [{"name": "quota"}]
        labels = {vocabulary.GUARD_LABEL: "enabled"} if of.guarded else {}
        metadata: Object = {"labels": labels, "ownerReferences": [owner(of.kind, of.name)]}
        pod = objects.changed(plain, {"metadata": metadata, "spec": spec})
        zones = exclusion(self._stage.storage, of.group) if self.webhook_runs and of.guarded else ()
        self._stage.cluster.create(_kept_out(pod, zones) if zones else pod)


def set_of(pod: Stored) -> Set | None:
    """The set that a pod belongs to, None for any other pod."""
    names = {reference["name"] for reference in pod.body["metadata"].get("ownerReferences") or ()}
    return next((each for each in SETS if each.name in names), None)


def carried(pod: Object) -> tuple[str, ...]:
    """The zones that admission has kept the pod out of."""
    annotation = (pod["metadata"].get("annotations") or {}).get(vocabulary.BLOCKED_ZONES_ANNOTATION, "")
    return tuple(annotation.split(",")) if annotation else ()


def _kept_out(pod: Object, zones: tuple[str, ...]) -> Object:
    expression = {"key": vocabulary.ZONE_LABEL, "operator": "NotIn", "values": list(zones)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    annotations = {vocabulary.BLOCKED_ZONES_ANNOTATION: ",".join(zones)}
    return objects.changed(pod, {"metadata": {"annotations": annotations}, "spec": {"affinity": affinity}})
