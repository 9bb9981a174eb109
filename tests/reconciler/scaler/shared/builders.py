"""Pools with defaults, so that a case says only what is special about it.

`pool(16, 5, 0)` has three usable pods with so many running tasks each; a number may be replaced by a `PoolPod` made
with `pod`, whose ordinal is its position.
"""

from dataclasses import replace
from typing import Any

from reconciler.scaler.shared.facts import PodState, Pool, PoolPod, Rules

GB = 1 << 30
MB = 1 << 20
# Longer than any limit of the default rules.
LONG = 700.0
DEFAULTS = Rules()


def pod(running: int = 0, **special: Any) -> PoolPod:
    return PoolPod(0, running=running, **special)


def idle(seconds: float = LONG, **special: Any) -> PoolPod:
    """An empty pod that has been idle for so long."""
    return pod(idle=seconds, **special)


def starting(seconds: float = 10.0, **special: Any) -> PoolPod:
    """A pod that has not run yet, for so long."""
    return pod(state=PodState.STARTING, lasting=seconds, good=False, **special)


def missing(seconds: float, **special: Any) -> PoolPod:
    """A pod that was asked for so long ago and is not there."""
    return pod(state=PodState.MISSING, lasting=seconds, good=False, **special)


def unknown(running: int = 0, **special: Any) -> PoolPod:
    """A pod whose status cannot be read; `running` is the last that was known."""
    return pod(running, state=PodState.UNKNOWN, good=False, **special)


def pool(*pods: int | PoolPod, waiting: int | tuple[int, ...] = 0, **special: Any) -> Pool:
    """A pool of these pods; `waiting` tasks of 1 MiB, or of these sizes."""
    each = tuple(replace(pod(p) if isinstance(p, int) else p, ordinal=n) for n, p in enumerate(pods))
    sizes = (MB,) * waiting if isinstance(waiting, int) else waiting
    return replace(Pool(replicas=len(each), pods=each, waiting=sizes), **special)
