"""The whole configuration as one value."""

from typing import Final

from ebbtide.config.admission import Certs, Webhook
from ebbtide.config.kinds import OptionalNamespace, Section
from ebbtide.config.process import LeaderElection, Observability
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.config.scaler import WorkerScaler
from ebbtide.config.signals import Signals

# Where the product lives when neither the configuration nor the pod's own environment says.
DEFAULT_NAMESPACE: Final = "ebbtide-system"


class Settings(Section, frozen=True):
    """Every setting of ebbtide. Durations are float seconds, sizes int bytes, lists tuples.

    Made by `ebbtide.config.load`, which also checks what must hold between settings.
    """

    namespace: OptionalNamespace = ""
    """Where lease, Secret and own Service live. "": `$POD_NAMESPACE`, else `ebbtide-system`."""

    node_rebalance: NodeRebalance = NodeRebalance()

    worker_scaler: WorkerScaler = WorkerScaler()

    webhook: Webhook = Webhook()

    certs: Certs = Certs()

    signals: Signals = Signals()

    leader_election: LeaderElection = LeaderElection()

    observability: Observability = Observability()

    @property
    def home(self) -> str:
        """The namespace of lease, Secret and own Service: what `load` has settled, where it was asked."""
        return self.namespace or DEFAULT_NAMESPACE
