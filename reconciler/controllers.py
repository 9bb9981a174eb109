"""Table of contents: every controller that the leader runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ebbtide.model import Cell
from reconciler.certificates import wiring as certificates
from reconciler.engine.context import Context, Runnable
from reconciler.readmission import wiring as readmission
from reconciler.rebalance import wiring as rebalance
from reconciler.rebalance.status import CellStatus
from reconciler.scaler import wiring as scaler
from reconciler.scaler.contract import Desk
from reconciler.scaler.describe import WorkersNow
from reconciler.signals import wiring as signals


@dataclass(frozen=True, slots=True)
class Controllers:
    """The controllers that the settings switch on.

    `cells` is every cell as zone rebalance has last looked at it, up to date at any time; `scaler` decides about
    load-data tasks. Each is None where it is switched off. `workers` says how these stand now.
    """

    runnables: tuple[Runnable, ...]
    cells: Mapping[Cell, CellStatus] | None
    scaler: Desk | None = None
    workers: Callable[[], WorkersNow] = WorkersNow


def build(context: Context) -> Controllers:
    """Everything that is switched on, built and not running yet."""
    found: list[Runnable] = []
    cells = None
    if context.settings.node_rebalance.run:
        controller = rebalance.build(context)
        cells = controller.statuses
        found += [controller, readmission.build(context)]
    if context.settings.certs.mode == "self-managed":
        found.append(certificates.build(context))
    if context.settings.signals.sqs.queue_url and not context.dry_run:
        # A dry run reads no queue: messages that it has seen would be hidden from whoever can store them.
        found.append(signals.build(context))
    if not context.settings.worker_scaler.run:
        return Controllers(tuple(found), cells)
    built = scaler.build(context)
    return Controllers((*found, *built.runnables), cells, built.desk, built.describe)
