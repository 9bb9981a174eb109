"""Puts the reader of the queue together from what the program offers."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module

from ebbtide.config.signals import Sqs
from ebbtide.errors import UsageError
from reconciler.engine.context import Context
from reconciler.signals.act import Act
from reconciler.signals.controller import QueueReader
from reconciler.signals.messages import Opening
from reconciler.signals.report import Report


def build(context: Context) -> QueueReader:
    """The reader. Raises UsageError as `opening_of`."""
    key = context.settings.node_rebalance.rebalance_signal_taint_key
    return QueueReader(
        opening_of(context.settings.signals.sqs, os.environ),
        Act(context.client, context.nodes, key),
        Report(context.registry, context.shared.recorder),
    )


def opening_of(sqs: Sqs, environ: Mapping[str, str]) -> Callable[[], Opening]:
    """What opens the queue. Raises UsageError when the extra is not installed, or the region cannot be told."""
    region = region_of(sqs, environ)
    try:
        queue = import_module("reconciler.signals.queue")
    except ModuleNotFoundError as error:
        lacking = (error.name or "").partition(".")[0]
        words = f"signals.sqs.queue-url is set, but {lacking} is not installed: pip install 'ebbtide[sqs]'"
        raise UsageError(words) from error
    return partial(queue.opened, sqs.queue_url, region)


def region_of(sqs: Sqs, environ: Mapping[str, str]) -> str:
    """The key, else what the queue's URL says, else the environment. Raises UsageError."""
    found = sqs.region or sqs.named_region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
    if not found:
        raise UsageError(f"signals.sqs.region must be set: {sqs.queue_url} does not say in which region it is")
    return found
