"""The pool in the state document (camelCase keys, ages in seconds), and each pod in the words of the metrics."""

from typing import Any

from reconciler.scaler.metrics import WorkerState
from reconciler.scaler.shared.conditions import Condition
from reconciler.scaler.shared.decide import size
from reconciler.scaler.shared.facts import PodState, Pool, PoolPod, Rules


def describe(pool: Pool, rules: Rules, conditions: tuple[Condition, ...]) -> dict[str, Any]:
    """Sizes, pods and what is wrong."""
    return {
        "replicas": pool.replicas,
        "desired": size(pool, rules).desired,
        "usable": len(pool.usable),
        "waiting": len(pool.waiting),
        "paused": pool.paused,
        "minReplicas": rules.least,
        "maxReplicas": rules.most,
        "scaleUpTasksPerPod": rules.per_pod,
        "maxTasksPerPod": rules.soft_cap,
        "pods": [_pod(pod) for pod in pool.pods],
        "conditions": [{"reason": str(condition.reason), "note": condition.note} for condition in conditions],
    }


def _pod(pod: PoolPod) -> dict[str, Any]:
    return {
        "ordinal": pod.ordinal,
        "state": str(pod.state),
        "running": pod.running,
        "ended": pod.ended,
        "reserved": pod.reserved,
        "idleSeconds": None if pod.idle is None else round(pod.idle, 1),
    }


def doing(pod: PoolPod) -> WorkerState:
    """What a pod is doing."""
    if pod.state in (PodState.ENDING, PodState.LOST):
        return WorkerState.ENDING if pod.state is PodState.ENDING else WorkerState.UNKNOWN
    if pod.never_ran or (pod.state is PodState.BLOCKED and not pod.good):
        return WorkerState.STARTING
    if not pod.good:
        return WorkerState.UNKNOWN
    if pod.running:
        return WorkerState.BUSY
    return WorkerState.READY if pod.reserved else WorkerState.IDLE
