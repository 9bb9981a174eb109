"""The one Secret: read as it is, and written only in the version that was read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.kube.client import SILENT_AFTER, Client, Object
from ebbtide.kube.errors import NotFound
from ebbtide.kube.owner import Owner
from ebbtide.kube.resources import SECRETS
from ebbtide.kube.store import Store


@dataclass(frozen=True, slots=True)
class SecretVersion:
    """What a watch keeps of the Secret: which version there is, and nothing of its content."""

    key: str
    uid: str
    resource_version: int


def secret_version(raw: Mapping[str, Any]) -> SecretVersion:
    """Reads a Secret object."""
    metadata = raw["metadata"]
    return SecretVersion(metadata["name"], metadata["uid"], int(metadata["resourceVersion"]))


class SecretStore:
    """The Secret `namespace/name`. While `watched` says that it has not changed, it is not read again.

    The Deployment `owner`, where there is one, owns what is written.
    """

    def __init__(
        self, client: Client, namespace: str, name: str, watched: Store[SecretVersion], owner: str = ""
    ) -> None:
        self.namespace = namespace
        self.name = name
        self._client = client
        self._watched = watched
        self._owner = Owner(client, namespace, owner)
        self._known: tuple[SecretVersion, Object] | None = None

    async def read(self) -> Object | None:
        """The Secret as it is now, None without one. Raises KubeError."""
        if self._known is not None and self._watched.age() < SILENT_AFTER:
            version, found = self._known
            if self._watched.get(self.name) == version:
                return found
        self._known = None
        try:
            return self._take(await self._client.get(SECRETS, self.name, namespace=self.namespace))
        except NotFound:
            return None

    async def write(self, body: Object, *, anew: bool) -> Object:
        """Stores it, `anew` where there is none, or in the place of the version that it names; what is there then.

        Raises Conflict when that is no longer what is there.
        """
        self._known = None
        body = {**body, "metadata": await self._owner.adopt(body["metadata"])}
        if anew:
            return self._take(await self._client.create(SECRETS, body, namespace=self.namespace))
        return self._take(await self._client.replace(SECRETS, self.name, body, namespace=self.namespace))

    def _take(self, raw: Object) -> Object:
        self._known = secret_version(raw), raw
        return raw
