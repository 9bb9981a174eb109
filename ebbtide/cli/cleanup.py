"""`ebbtide cleanup`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn

from ebbtide.cleanup.act import Account
from ebbtide.cleanup.report import document, interrupted, lines, succeeded
from ebbtide.cleanup.sweep import Options, clean, rules_of
from ebbtide.cli.asking import add_flags, ask, print_json
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.service.ending import remark


def add_arguments(parser: ArgumentParser) -> None:
    add_flags(parser)
    parser.add_argument("--dry-run", action="store_true", help="list what would go, write nothing")
    parser.add_argument("--force", action="store_true", help="also while a reconciler leads")
    parser.add_argument(
        "--taint-key",
        metavar="KEY",
        action="append",
        default=[],
        help="remove the prevent taint under this key too, that of an earlier configuration (may be repeated)",
    )


def run(arguments: Namespace) -> int:
    """0 when nothing of ours is left, or after a dry run; 1 when something is. Raises EbbtideError."""
    account = Account()
    with _progress(account) as progress:
        try:
            return ask(arguments, partial(_clean, arguments, account, progress))
        except KeyboardInterrupt:
            remark(interrupted(account))
            raise


async def _clean(arguments: Namespace, account: Account, progress: Progress, client: Client, settings: Settings) -> int:
    def tell(sentence: str) -> None:
        # Nobody who reads along is no reason to stop half-way.
        with suppress(OSError):
            progress.console.print(sentence)

    options = Options(arguments.dry_run, arguments.force, tell)
    result = await clean(client, settings, rules_of(settings, arguments.taint_key), options, account)
    if arguments.output == "json":
        print_json(document(result, account, dry_run=arguments.dry_run))
    else:
        print(*lines(result, account, dry_run=arguments.dry_run), sep="\n")
    return 0 if succeeded(account) else 1


@contextmanager
def _progress(account: Account) -> Iterator[Progress]:
    """On stderr, so that the result can be piped on; with a line that moves only where there is a terminal."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    columns = (TextColumn("objects cleaned"), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def changed() -> None:
            progress.update(task, total=account.planned, completed=len(account.removed))

        account.changed = changed
        yield progress
