"""Whether a task that is not known is really unknown.

In every term all is read once before anything is said of tasks: the lists of the cluster, what the dedicated workers
and the pool were promised, what the local pods list. Workers list tasks by cluster; where no cluster is configured, the
local pods have to be asked anew for each one that a request names for the first time.
"""

from collections.abc import Sequence

from reconciler.scaler.contract import Placement
from reconciler.scaler.local.controller import Local
from reconciler.scaler.status.clusters import Clusters
from reconciler.scaler.status.rounds import Rounds
from reconciler.scaler.stores import Stores


class Discovery:
    """What has been read once in a term stays read: later troubles do not make tasks unknown again."""

    def __init__(
        self, stores: Stores, clusters: Clusters, rounds: Rounds, placements: Sequence[Placement], local: Local
    ) -> None:
        self._stores = stores
        self._clusters = clusters
        self._rounds = rounds
        self._placements = placements
        self._local = local
        self._leading = False
        self._all_read = False
        self._clusters_read: set[int] = set()

    def begin(self) -> None:
        """A new term: others may have led."""
        self._leading, self._all_read = True, False
        self._clusters_read.clear()

    def end(self) -> None:
        """From now on what was known last is all there is."""
        self._leading = False

    def unknown(self, cluster: int = 0) -> str:
        """What is still to be read, for tasks of that cluster too if one is named; "" when it is all known."""
        if not self._leading:
            return "this replica does not lead"
        if not self._all_read:
            self._hear_of(cluster)
            missing = self._stores.unknown or next((text for each in self._placements if (text := each.discovered)), "")
            if missing:
                return missing
            self._all_read = True
        return self._unread(cluster) if cluster and cluster not in self._clusters_read else ""

    def refusal(self, cluster: int) -> str:
        """Why no new task of that cluster is taken, in words; "" when it is."""
        return self._clusters.refusal(cluster)

    def _unread(self, cluster: int) -> str:
        self._hear_of(cluster)
        missing = self._local.unread(frozenset((cluster,)))
        if not missing:
            self._clusters_read &= self._clusters.all()
            self._clusters_read.add(cluster)
        return missing

    def _hear_of(self, cluster: int) -> None:
        if cluster and self._clusters.hear_of(cluster):
            self._rounds.hurry()
