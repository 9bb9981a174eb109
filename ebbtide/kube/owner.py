"""The Deployment that this process belongs to, as the owner of what it makes: when that goes, the cluster removes it.

A chart cannot render such an object, and cannot name its owner's UID either: only the process can find it out. Whoever
deploys it says the name. Without a name, or where the Deployment may not be read, objects are made without an owner,
and `ebbtide cleanup` is what removes them.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, NotFound
from ebbtide.kube.limits import Lane
from ebbtide.kube.resources import DEPLOYMENTS

log = structlog.stdlib.get_logger(__name__)

Metadata = Mapping[str, Any]


class Owner:
    """The Deployment `namespace/name`; with an empty name nothing is owned."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._reference: Mapping[str, str] | None = None

    async def adopt(self, metadata: Metadata) -> dict[str, Any]:
        """The metadata to write: with the owner beside the owners that it has. Raises KubeError."""
        owners = list(metadata.get("ownerReferences") or ())
        reference = await self._found()
        if reference is None or any(owner["uid"] == reference["uid"] for owner in owners):
            return dict(metadata)
        return {**metadata, "ownerReferences": [*owners, dict(reference)]}

    async def _found(self) -> Mapping[str, str] | None:
        """Asked once: this process does not outlive its Deployment for long."""
        if self._name and self._reference is None:
            try:
                raw = await self._client.get(DEPLOYMENTS, self._name, namespace=self._namespace, lane=Lane.URGENT)
            except (NotFound, Forbidden) as error:
                log.warning("what is made here will have no owner", deployment=self._name, problem=str(error))
                self._name = ""
                return None
            kind = {"apiVersion": DEPLOYMENTS.api_version, "kind": DEPLOYMENTS.kind}
            self._reference = {**kind, "name": self._name, "uid": raw["metadata"]["uid"]}
        return self._reference
