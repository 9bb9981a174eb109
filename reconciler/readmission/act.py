"""Deletes pods, each only in the very version that was decided on.

The UID alone would not be enough: a pod that the scheduler has just given a node is still the same pod, and by then it
may be starting.
"""

from ebbtide.kube.client import Client
from ebbtide.kube.resources import PODS
from reconciler.readmission.decide import PendingPod


class Act:
    """Carries out deletions."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def delete(self, pod: PendingPod) -> None:
        """Raises NotFound when it has gone by itself, Conflict when it has changed, and what else requests raise."""
        await self._client.delete(
            PODS, pod.name, namespace=pod.traits.namespace, uid=pod.uid, resource_version=pod.resource_version
        )
