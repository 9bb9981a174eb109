"""Asking the API server what this process may do, and saying which permission is meant.

SelfSubjectAccessReview is open to every authenticated client. Where nobody may ask it, the reads among the needs are
tried instead.
"""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import structlog

from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, Invalid, NotFound
from ebbtide.kube.resources import Resource

log = structlog.stdlib.get_logger(__name__)

ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


@dataclass(frozen=True, slots=True)
class Need:
    """One permission in RBAC's words and what it is for. Without an `essential` one there is no use in starting.

    With `names_open` a role may grant it for the names of some objects, which only the cluster knows: nobody is asked
    about it before there is such an object.
    """

    verb: str
    resource: Resource
    purpose: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    essential: bool = True
    names_open: bool = False

    def __str__(self) -> str:
        kind = "/".join(part for part in (self.resource.plural, self.subresource) if part)
        group = f".{self.resource.group}" if self.resource.group else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{group}{where} ({self.purpose})"


def lacks(account: str, needs: Sequence[Need]) -> str:
    """Whose permissions are missing, and which; several have a line each."""
    listed = [str(need) for need in needs]
    return f"{account} is not permitted to:" + (f" {listed[0]}" if len(listed) == 1 else "\n  " + "\n  ".join(listed))


async def refused(client: Client, needs: Sequence[Need]) -> list[Need]:
    """Those of the needs that are not granted, but for those with open names. Raises KubeError when that cannot be
    found out."""
    needs = [need for need in needs if not need.names_open]
    try:
        return [need for need in needs if not await _reviewed(client, need)]
    except (Forbidden, NotFound, Invalid) as error:
        log.info("permissions cannot be asked about, trying the reads", problem=str(error))
        return [need for need in needs if not await _tried(client, need)]


async def _reviewed(client: Client, need: Need) -> bool:
    attributes = {
        "verb": need.verb,
        "group": need.resource.group,
        "resource": need.resource.plural,
        "subresource": need.subresource,
        "namespace": need.namespace,
        "name": need.name,
    }
    body = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(ACCESS_REVIEWS, body)
    return bool(answer["status"].get("allowed"))


async def _tried(client: Client, need: Need) -> bool:
    """What can be found out without writing: anything but a list or a get counts as permitted."""
    try:
        if need.verb == "list":
            async with aclosing(client.list(need.resource, namespace=need.namespace, page_size=1)) as objects:
                await anext(objects, None)
        elif need.verb == "get":
            await client.get(need.resource, need.name, namespace=need.namespace)
    except NotFound:
        return True
    except Forbidden:
        return False
    return True
