"""`ebbtide preflight`."""

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from rich.console import Console

from ebbtide.cli.asking import AS_WIDE_AS_IT_GETS, add_flags, ask, print_json
from ebbtide.config import Settings
from ebbtide.kube.access import Access
from ebbtide.kube.client import Client
from ebbtide.preflight.decide import decide
from ebbtide.preflight.report import document, failed, lines
from ebbtide.preflight.snapshot import Asked, read
from reconciler.needs import needs
from webhook import probe

# Zones may change between looking at them and asking the webhook, which hears of it a moment later.
_SETTLES_WITHIN: Final = 5.0


def add_arguments(parser: ArgumentParser) -> None:
    add_flags(parser)
    parser.add_argument(
        "--as",
        dest="account",
        type=_account,
        metavar="ACCOUNT",
        default="",
        help="whose permissions to look at, such as system:serviceaccount:ebbtide-system:ebbtide (default: your own)",
    )


def run(arguments: Namespace) -> int:
    """0 when no check fails, 1 when one does. Raises EbbtideError."""
    return ask(arguments, partial(_look, arguments))


def _account(text: str) -> str:
    """It is sent as a header, which carries one line."""
    if not text.isprintable():
        raise ArgumentTypeError(f"{text!r} is no account: it has a character that cannot be printed in it")
    return text


async def _look(arguments: Namespace, client: Client, settings: Settings) -> int:
    wanted = needs(settings, settings.home, dry_run=False)
    access, account = client.access, arguments.account
    if account:
        access = replace(access, headers=partial(_impersonating, client.access, account))
    async with Client(access, field_manager="ebbtide", user_agent="ebbtide-preflight") as asking:
        whose = Asked(asking, account or client.access.identity, wanted)
        facts = await read(client, settings, whose, partial(_probe, client, settings))
    findings = decide(facts, settings, time.time())
    if arguments.output == "json":
        print_json(document(findings))
    else:
        width = Console().width if sys.stdout.isatty() else AS_WIDE_AS_IT_GETS
        print(*lines(findings, width), sep="\n")
    return 1 if failed(findings) else 0


async def _probe(client: Client, settings: Settings, namespace: str) -> tuple[str, Sequence[str]]:
    return await probe.ask(client, settings, namespace, _SETTLES_WITHIN)


async def _impersonating(access: Access, account: str) -> Mapping[str, str]:
    return {**await access.headers(), "Impersonate-User": account}
