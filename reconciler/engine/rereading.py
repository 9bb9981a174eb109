"""What follows a refused write to a node, before it is decided on anew."""

from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError
from ebbtide.kube.limits import Lane
from ebbtide.kube.resources import NODES
from ebbtide.kube.store import Store
from ebbtide.model import NodeFacts


async def read_again(client: Client, nodes: Store[NodeFacts], refused: NodeFacts) -> None:
    """Brings the store up to date after a write to `refused` was refused, if the watch has not done so meanwhile.

    Raises no KubeError: the refusal stands either way, and the watch, or the next attempt, brings the news.
    """
    known = nodes.get(refused.name)
    if known is None or known.resource_version != refused.resource_version:
        return
    try:
        nodes.observe(await client.get(NODES, refused.name, lane=Lane.URGENT))
    except KubeError:
        return
