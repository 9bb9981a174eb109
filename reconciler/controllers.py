"""Table of contents: every controller that the leader runs."""

from collections.abc import Iterator

from reconciler.engine.context import Context, Runnable
from reconciler.readmission import wiring as readmission
from reconciler.rebalance import wiring as rebalance


def build(context: Context) -> tuple[Runnable, ...]:
    """The controllers that the settings switch on."""
    return tuple(_wanted(context))


def _wanted(context: Context) -> Iterator[Runnable]:
    if context.settings.node_rebalance.run:
        yield rebalance.build(context)
        yield readmission.build(context)
    if context.settings.certs.mode == "self-managed":
        # cryptography takes 9 MB of memory: only who has certificates made here pays for it.
        from reconciler.certificates import wiring as certificates  # noqa: PLC0415

        yield certificates.build(context)
