"""Before anything starts: is the cluster there, and may this process do what it cannot do without?

The API server is asked about each need. An answer that is "not now" is waited for; "no" ends the program, with every
refusal in one message.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from ebbtide.errors import ClusterAccessError
from ebbtide.kube.backoff import Backoff
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, KubeError, Unauthorized
from ebbtide.kube.permissions import Need, lacks, refused

log = structlog.stdlib.get_logger(__name__)

# How long a server that starts up is left alone between two questions.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0


async def wait_until_permitted(client: Client, needs: Sequence[Need], waiting: Callable[[str], None]) -> None:
    """Returns when every essential need is met; tells `waiting` why not yet.

    Raises ClusterAccessError for credentials that are not accepted (401) and for essential needs that are refused.
    """
    pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
    told = ""
    while True:
        try:
            lacking = await refused(client, needs)
        except Unauthorized as error:
            raise ClusterAccessError(client.access.refusal(error.message)) from error
        except KubeError as error:
            waiting(str(error))
            if str(error) != told:
                told = str(error)
                log.warning("waiting for the cluster", server=client.access.server, problem=told)
            await asyncio.sleep(pauses.next())
        else:
            return _conclude(client, lacking)


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
            raise ClusterAccessError(client.access.refusal(error.message)) from error
        if isinstance(error, Forbidden):
            raise ClusterAccessError(f"{client.access.identity} is not permitted to {error.what}: {error.message}")

    return judge


def _conclude(client: Client, lacking: Sequence[Need]) -> None:
    essential = [need for need in lacking if need.essential]
    if essential:
        raise ClusterAccessError(lacks(client.access.identity, essential))
    for need in lacking:
        log.warning("not permitted, going on without", need=str(need))
