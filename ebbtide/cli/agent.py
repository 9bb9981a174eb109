"""`ebbtide agent`."""

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import NoReturn

from ebbtide.agent.main import LISTEN_KEY, Orders
from ebbtide.errors import UsageError
from ebbtide.service.arguments import Common, add_common


def add_arguments(parser: ArgumentParser) -> None:
    add_common(parser)
    parser.add_argument(
        "--node-name",
        metavar="NAME",
        default=os.environ.get("NODE_NAME", ""),
        help="the node that this process runs on (env NODE_NAME)",
    )


def run(arguments: Namespace) -> NoReturn:
    """Reads the configuration, and becomes a process that does not carry it around. Raises UsageError."""
    common = Common.of(arguments)
    common.configure_logs()
    orders = _orders(common, arguments.node_name)
    command = [sys.executable, "-m", "ebbtide.agent", *orders.flags()]
    sys.stderr.flush()
    os.execv(sys.executable, command)  # noqa: S606 - this very interpreter, with flags of our own making


def _orders(common: Common, node: str) -> Orders:
    loaded = common.load()
    settings = loaded.settings
    if not node:
        raise UsageError("which node this is must be said: --node-name or $NODE_NAME (fieldRef spec.nodeName in a pod)")
    return Orders(
        node=node,
        signal_key=settings.node_rebalance.rebalance_signal_taint_key,
        endpoint=settings.signals.imds.endpoint,
        interval=settings.signals.imds.poll_interval,
        host=settings.observability.listen.host,
        port=settings.observability.listen.port,
        listen_origin=str(loaded.origins[LISTEN_KEY]),
        kubeconfig=str(common.kubeconfig or ""),
        context=common.context or "",
        log_level=common.log_level,
        log_format=common.log_format,
    )
