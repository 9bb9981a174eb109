"""What the commands that look at a cluster once have in common: flags, connection, exit codes, forms of output."""

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson

from ebbtide.config import Settings
from ebbtide.errors import ClusterAccessError, EbbtideError
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden, KubeError, NoCredentials, Unauthorized, Unreachable
from ebbtide.service.arguments import Common, add_common
from ebbtide.service.metrics import product_version

FORMS: Final = ("table", "json")


def add_flags(parser: ArgumentParser) -> None:
    """The common flags and `--output`. Logs are kept to warnings: standard output is for the answer."""
    add_common(parser)
    parser.set_defaults(log_level="warning")
    parser.add_argument("--output", choices=FORMS, default="table", help="form of the answer (default: %(default)s)")


def ask(arguments: Namespace, question: Callable[[Client, Settings], Awaitable[int]]) -> int:
    """Runs `question` against the cluster that the flags point at; returns its exit code.

    Raises ClusterAccessError for a cluster that cannot be reached or does not permit the question, EbbtideError for one
    that answers with another failure.
    """
    common = Common.of(arguments)
    common.configure_logs()

    async def asked() -> int:
        settings = common.settings()
        access = await common.access()
        agent = f"ebbtide/{product_version()}"
        async with Client(access, field_manager="ebbtide", user_agent=agent) as client:
            try:
                return await question(client, settings)
            except (Forbidden, Unauthorized, NoCredentials) as error:
                raise ClusterAccessError(f"{access.identity} does not permit it: {error}") from error
            except Unreachable as error:
                raise ClusterAccessError(f"{access.identity} cannot be reached: {error}") from error
            except KubeError as error:
                raise EbbtideError(f"{access.identity} answered with a failure: {error}") from error

    return asyncio.run(asked())


def print_json(document: Any) -> None:
    """One indented document on standard output."""
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


def duration(seconds: float) -> str:
    """A duration for people: `45 s`, `12 min`, `3.5 h`, `2.1 d`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} d"
