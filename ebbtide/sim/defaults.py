"""What the server fills in where the client says nothing, by kind.

Only defaults that somebody can see the effect of, and the nulls that Go writes out for times: k8s.io/kubernetes
`pkg/apis/*/v1/defaults.go` and the admission plugins DefaultTolerationSeconds, Priority and TaintNodesByCondition.
"""

from collections.abc import Callable
from typing import Any, Final

from ebbtide.sim import kinds
from ebbtide.sim.kinds import Kind

Object = dict[str, Any]

# The admission plugin DefaultTolerationSeconds: how long a pod stays on a node that is not ready or unreachable.
DEFAULT_TOLERATION_SECONDS: Final = 300
NOT_READY: Final = "node.kubernetes.io/not-ready"
_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_AUTOMATIC_TOLERATIONS: Final = (NOT_READY, "node.kubernetes.io/unreachable")


def fill(kind: Kind, body: Object) -> None:
    """Fills in place; what is there stays."""
    filler = _FILLERS.get(kind)
    if filler is not None:
        filler(body)


def _set(target: Object, **values: Any) -> None:
    for name, value in values.items():
        target.setdefault(name, value)


def _pod(body: Object) -> None:
    spec = body.setdefault("spec", {})
    _pod_spec(spec)
    _set(
        spec,
        enableServiceLinks=True,
        priority=0,
        preemptionPolicy="PreemptLowerPriority",
        serviceAccountName="default",
        serviceAccount="default",
    )
    _tolerations(spec)
    status = body.setdefault("status", {})
    _set(status, phase="Pending", qosClass=_quality(spec))
    for condition in status.get("conditions", ()):
        _set(condition, lastProbeTime=None, lastTransitionTime=None)


def _pod_spec(spec: Object) -> None:
    _set(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        terminationGracePeriodSeconds=30,
        schedulerName="default-scheduler",
        securityContext={},
    )
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _container(container)


def _container(container: Object) -> None:
    _set(
        container,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="IfNotPresent" if ":" in str(container.get("image")) else "Always",
        resources={},
    )
    resources = container["resources"]
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    for port in container.get("ports", ()):
        _set(port, protocol="TCP")


def _tolerations(spec: Object) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in _AUTOMATIC_TOLERATIONS:
        if not any(
            entry.get("key", key) == key and entry.get("effect", "NoExecute") == "NoExecute" for entry in tolerations
        ):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": DEFAULT_TOLERATION_SECONDS,
                }
            )


def _quality(spec: Object) -> str:
    resources = [container["resources"] for container in spec.get("containers", ())]
    if not any(entry.get("requests") or entry.get("limits") for entry in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= set(entry.get("limits", ())) and entry["limits"] == entry.get("requests")
        for entry in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _template(spec: Object) -> None:
    _pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _stateful_set(body: Object) -> None:
    spec = body.setdefault("spec", {})
    _template(spec)
    _set(
        spec,
        replicas=1,
        podManagementPolicy="OrderedReady",
        revisionHistoryLimit=10,
        updateStrategy={},
        persistentVolumeClaimRetentionPolicy={},
    )
    _set(spec["updateStrategy"], type="RollingUpdate")
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        _set(spec["updateStrategy"].setdefault("rollingUpdate", {}), partition=0, maxUnavailable=1)
    _set(spec["persistentVolumeClaimRetentionPolicy"], whenDeleted="Retain", whenScaled="Retain")
    for claim in spec.get("volumeClaimTemplates", ()):
        _set(claim, apiVersion="v1", kind="PersistentVolumeClaim")
        _claim(claim)
    _set(body.setdefault("status", {}), replicas=0, availableReplicas=0)


def _replica_set(body: Object) -> None:
    spec = body.setdefault("spec", {})
    _template(spec)
    _set(spec, replicas=1)
    _set(body.setdefault("status", {}), replicas=0)


def _deployment(body: Object) -> None:
    spec = body.setdefault("spec", {})
    _template(spec)
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={})
    _set(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        _set(spec["strategy"].setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")
    body.setdefault("status", {})


def _daemon_set(body: Object) -> None:
    spec = body.setdefault("spec", {})
    _template(spec)
    _set(spec, revisionHistoryLimit=10, updateStrategy={})
    _set(spec["updateStrategy"], type="RollingUpdate")
    counts = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
    _set(body.setdefault("status", {}), **dict.fromkeys(counts, 0))


def _budget(body: Object) -> None:
    counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    _set(body.setdefault("status", {}), **dict.fromkeys(counts, 0))


def _claim(body: Object) -> None:
    _set(body.setdefault("spec", {}), volumeMode="Filesystem")
    _set(body.setdefault("status", {}), phase="Pending")


def _volume(body: Object) -> None:
    _set(body.setdefault("spec", {}), volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")
    _set(body.setdefault("status", {}), phase="Pending")


def _namespace(body: Object) -> None:
    metadata = body["metadata"]
    metadata.setdefault("labels", {}).setdefault("kubernetes.io/metadata.name", metadata.get("name", ""))
    spec = body.setdefault("spec", {})
    if "deletionTimestamp" not in metadata:
        _set(spec, finalizers=["kubernetes"])
    _set(body.setdefault("status", {}), phase="Active")


def _service(body: Object) -> None:
    spec = body.setdefault("spec", {})
    _set(spec, type="ClusterIP", sessionAffinity="None")
    for port in spec.get("ports", ()):
        _set(port, protocol="TCP", targetPort=port.get("port"))
    _set(body.setdefault("status", {}), loadBalancer={})


def _mutating_webhooks(body: Object) -> None:
    _validating_webhooks(body)
    for webhook in body.get("webhooks", ()):
        _set(webhook, reinvocationPolicy="Never")


def _validating_webhooks(body: Object) -> None:
    for webhook in body.get("webhooks", ()):
        _set(webhook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        _set(webhook, namespaceSelector={}, objectSelector={})
        for rule in webhook.get("rules", ()):
            _set(rule, scope="*")
        if "service" in webhook.get("clientConfig", {}):
            _set(webhook["clientConfig"]["service"], port=443)


def taint_new_node(body: Object) -> None:
    """The admission plugin TaintNodesByCondition: a new node is not ready until somebody says so."""
    taints = body["spec"].setdefault("taints", [])
    taint = {"key": NOT_READY, "effect": "NoSchedule"}
    if not any(taint.items() <= present.items() for present in taints):
        taints.append(taint)


def _node(body: Object) -> None:
    body.setdefault("spec", {})
    status = body.setdefault("status", {})
    _set(status, daemonEndpoints={"kubeletEndpoint": {"Port": 0}}, nodeInfo={})
    _set(status["nodeInfo"], **dict.fromkeys(_NODE_INFO, ""))
    for condition in status.get("conditions", ()):
        _set(condition, lastHeartbeatTime=None, lastTransitionTime=None)


def _event(body: Object) -> None:
    _set(body, deprecatedFirstTimestamp=None, deprecatedLastTimestamp=None, deprecatedSource={})


def _core_event(body: Object) -> None:
    times = ("eventTime", "firstTimestamp", "lastTimestamp")
    _set(body, **dict.fromkeys(times), reportingComponent="", reportingInstance="", source={})


_FILLERS: Final[dict[Kind, Callable[[Object], None]]] = {
    kinds.PODS: _pod,
    kinds.NODES: _node,
    kinds.EVENTS: _event,
    kinds.CORE_EVENTS: _core_event,
    kinds.NAMESPACES: _namespace,
    kinds.SERVICES: _service,
    kinds.STATEFUL_SETS: _stateful_set,
    kinds.REPLICA_SETS: _replica_set,
    kinds.DEPLOYMENTS: _deployment,
    kinds.DAEMON_SETS: _daemon_set,
    kinds.POD_DISRUPTION_BUDGETS: _budget,
    kinds.PERSISTENT_VOLUME_CLAIMS: _claim,
    kinds.PERSISTENT_VOLUMES: _volume,
    kinds.MUTATING_WEBHOOKS: _mutating_webhooks,
    kinds.VALIDATING_WEBHOOKS: _validating_webhooks,
}
