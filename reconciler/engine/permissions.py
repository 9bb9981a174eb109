"""Before anything starts: is the cluster there, and may this process do what it cannot do without?

The API server is asked about each need (SelfSubjectAccessReview, open to every authenticated client). Where nobody
may ask that, the reads among the needs are tried instead. An answer that is "not now" is waited for; "no" ends the
program, with every refusal in one message.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from ebbtide.errors import ClusterAccessError
from ebbtide.kube.backoff import Backoff
from ebbtide.kube.client import Client
from ebbtide.kube.errors import ApiError, Forbidden, Invalid, KubeError, NotFound, Unauthorized
from ebbtide.kube.resources import Resource

log = structlog.stdlib.get_logger(__name__)

ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
# How long a server that starts up is left alone between two questions.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Need:
    """One permission in RBAC's words and what it is for. Without an `essential` one the program does not start."""

    verb: str
    resource: Resource
    purpose: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    essential: bool = True

    def __str__(self) -> str:
        kind = "/".join(part for part in (self.resource.plural, self.subresource) if part)
        group = f".{self.resource.group}" if self.resource.group else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{group}{where} ({self.purpose})"


async def wait_until_permitted(client: Client, needs: Sequence[Need], waiting: Callable[[str], None]) -> None:
    """Returns when every essential need is met; tells `waiting` why not yet.

    Raises ClusterAccessError for credentials that are not accepted (401) and for essential needs that are refused.
    """
    pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
    told = ""
    while True:
        try:
            refused = await _refused(client, needs)
        except Unauthorized as error:
            raise ClusterAccessError(_rejected(client, error)) from error
        except KubeError as error:
            waiting(str(error))
            if str(error) != told:
                told = str(error)
                log.warning("waiting for the cluster", server=client.access.server, problem=told)
            await asyncio.sleep(pauses.next())
        else:
            return _conclude(client, refused)


def persistence(client: Client, heard: Callable[[], float], within: float) -> Callable[[KubeError], None]:
    """Judges, and logs, the failures of something essential that runs: raises ClusterAccessError for a 401 or 403.

    `heard` is the seconds since the last success; up to `within` of them a refusal may pass by itself (credentials
    that are being rotated, roles that are being replaced).
    """

    def judge(error: KubeError) -> None:
        log.warning("interrupted", problem=str(error))
        if heard() <= within:
            return
        if isinstance(error, Unauthorized):
            raise ClusterAccessError(_rejected(client, error)) from error
        if isinstance(error, Forbidden):
            raise ClusterAccessError(f"{client.access.identity} is not permitted to {error.what}: {error.message}")

    return judge


def _rejected(client: Client, error: ApiError) -> str:
    access = client.access
    return f"{access.server} does not accept the credentials of {access.identity} (401): {error.message}"


def _conclude(client: Client, refused: Sequence[Need]) -> None:
    lacking = [str(need) for need in refused if need.essential]
    if lacking:
        raise ClusterAccessError(f"{client.access.identity} is not permitted to: {'; '.join(lacking)}")
    for need in refused:
        log.warning("not permitted, going on without", need=str(need))


async def _refused(client: Client, needs: Sequence[Need]) -> list[Need]:
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
            async for _ in client.list(need.resource, namespace=need.namespace, page_size=1):
                break
        elif need.verb == "get":
            await client.get(need.resource, need.name, namespace=need.namespace)
    except NotFound:
        return True
    except Forbidden:
        return False
    return True
