"""Table of contents of the command line."""

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, cast


class Module(Protocol):
    """What the module of a command has; `run` returns the exit code."""

    def add_arguments(self, parser: ArgumentParser) -> None: ...

    def run(self, arguments: Namespace) -> int: ...


@dataclass(frozen=True)
class Command:
    """`module` is imported only when the command is used: a program with a server in it takes its time to import.

    `description` is the whole sentence above its `--help`.
    """

    name: str
    summary: str
    description: str
    module: str

    def load(self) -> Module:
        return cast("Module", import_module(self.module))


COMMANDS: Final = (
    Command(
        "reconciler",
        "run the reconciler",
        "Watches the nodes, blocks growth in zones with rebalance signals, moves pods out. Of several, one leads.",
        "ebbtide.cli.reconciler",
    ),
    Command(
        "webhook",
        "serve admission",
        "Keeps new pods out of blocked zones and pins load-data workers, as a mutating admission webhook over TLS.",
        "ebbtide.cli.webhook",
    ),
    Command(
        "agent",
        "watch this node's instance metadata",
        "Tells the cluster what AWS says about the Spot instance that it runs on, as a taint on its node.",
        "ebbtide.cli.agent",
    ),
    Command(
        "status",
        "show every zone of every node group",
        "Shows zones, signals and whether blocks hold, from the leader or, without one, from the cluster itself.",
        "ebbtide.cli.status",
    ),
    Command(
        "explain",
        "say why a zone, node, pod or load-data task is as it is",
        "Says what is decided about a zone, node, pod or task, and why, from the functions that the reconciler runs.",
        "ebbtide.cli.explain",
    ),
    Command(
        "demo",
        "watch it work on an embedded cluster",
        "Plays a scenario on a cluster inside this process, with the real reconciler, faster than life.",
        "ebbtide.cli.demo.command",
    ),
    Command(
        "preflight",
        "look for settings that would defeat the block",
        "Checks autoscaler, termination handler, descheduler, nodes and permissions, and says what to change.",
        "ebbtide.cli.preflight",
    ),
    Command(
        "cleanup",
        "remove what ebbtide has put on the cluster",
        "Removes every taint, annotation and object that ebbtide has set, nothing else. Stop the reconciler first.",
        "ebbtide.cli.cleanup",
    ),
    Command(
        "certs",
        "issue, inspect and rotate the webhook's certificates",
        "Makes certificates as files or in the Secret, shows them with who trusts them, has new ones made.",
        "ebbtide.cli.certs",
    ),
    Command(
        "config",
        "check or show the configuration",
        "Checks a configuration file, or shows the configuration that is in force and where each value came from.",
        "ebbtide.cli.config",
    ),
)
