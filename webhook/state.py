"""What is known of the cluster, from watches: blocked zones, guarded namespaces, bound volumes. All of it in memory.

When a watch is lost the last state stays: a zone that was blocked is blocked until somebody says otherwise. Claims are
watched in all namespaces, since a pod of a pool need not live in a guarded one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ebbtide import shapes
from ebbtide.config import Settings
from ebbtide.exclusion.decide import Around
from ebbtide.exclusion.decide import Rules as ExclusionRules
from ebbtide.exclusion.volumes import BoundVolumes
from ebbtide.exclusion.zones import BlockedZones, GroupZones
from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from ebbtide.kube.store import Store
from ebbtide.model import (
    ClaimFacts,
    NamespaceFacts,
    NodeFacts,
    VolumeFacts,
    claim_facts,
    namespace_facts,
    node_facts,
    volume_facts,
)
from webhook.decide import Rules

Watch = Reflector[NodeFacts] | Reflector[NamespaceFacts] | Reflector[ClaimFacts] | Reflector[VolumeFacts]
Judge = Callable[[KubeError], None]

_PLAIN: Final = {guarded: Around(guarded) for guarded in (False, True)}


class State:
    """`webhook.decide.Known`, as the watches have it."""

    def __init__(self, settings: Settings) -> None:
        rules = settings.node_rebalance
        labels = rules.labels
        self.nodes: Store[NodeFacts] = Store(lambda raw: node_facts(raw, labels), shapes.Node)
        self.namespaces: Store[NamespaceFacts] = Store(namespace_facts)
        self.claims: Store[ClaimFacts] = Store(claim_facts)
        self.volumes: Store[VolumeFacts] = Store(volume_facts)
        self.blocked = BlockedZones(self.nodes, rules.prevent_ca_scale_up_taint_key)
        self._aware = settings.webhook.volume_zone_awareness
        self._bound = BoundVolumes(self.claims, self.volumes)
        self._complete = False

    @property
    def zones(self) -> Mapping[str, GroupZones]:
        return self.blocked.groups

    def around(self, namespace: str, claims: Iterable[str]) -> Around:
        facts = self.namespaces.get(namespace)
        guarded = facts is not None and facts.guarded
        if not claims or not self._aware:
            return _PLAIN[guarded]
        return Around(guarded, self._bound.zones(namespace, claims))

    @property
    def complete(self) -> bool:
        """Whether everything that decides has been read once."""
        if not self._complete:
            self._complete = not self.lacking()
        return self._complete

    def lacking(self) -> str:
        """What has not been read yet, "" when nothing is missing."""
        stores = {"nodes": self.nodes.synced, "namespaces": self.namespaces.synced}
        if self._aware:
            stores |= {"claims": self.claims.synced, "volumes": self.volumes.synced}
        return ", ".join(name for name, synced in stores.items() if not synced)

    def age(self) -> float:
        """Seconds since the API server was last heard of about nodes; infinite before."""
        return self.nodes.age()

    def watches(self, client: Client, judged: Callable[[Callable[[], float]], Judge]) -> tuple[Watch, ...]:
        """What keeps it up to date. `judged` makes of an age what judges the failures of a watch."""
        found: tuple[Watch, ...] = (
            Reflector(client, NODES, self.nodes, on_problem=judged(self.nodes.age)),
            Reflector(client, NAMESPACES, self.namespaces, on_problem=judged(self.namespaces.age)),
        )
        if self._aware:
            found += (
                Reflector(client, PERSISTENT_VOLUME_CLAIMS, self.claims, on_problem=judged(self.claims.age)),
                Reflector(client, PERSISTENT_VOLUMES, self.volumes, on_problem=judged(self.volumes.age)),
            )
        return found


def rules_of(settings: Settings) -> Rules:
    """The settings that decide about an object."""
    return Rules(
        labels=settings.node_rebalance.labels,
        exclusion=ExclusionRules.of(settings),
    )
