"""`ebbtide status`: every zone of every node group, from the leader or, without one, from the cluster itself."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Final

from rich.live import Live

from ebbtide.cli.asking import Terminal, add_flags, add_url, ask, plain, print_json
from ebbtide.cli.overview import picture
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.errors import EbbtideError
from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError
from ebbtide.service.ending import OutputError, remark
from reconciler.inquiry import Inquiry
from reconciler.sources import Answer, from_cluster, from_reconciler

Look = Callable[[], Awaitable[Answer]]

_EVERY_SECONDS: Final = 2.0
# Reading thousands of nodes takes seconds: looking takes at most a tenth of the time, for the API server's sake.
_REST_FOR_WORK: Final = 9.0


def add_arguments(parser: ArgumentParser) -> None:
    add_flags(parser)
    parser.add_argument("--watch", action="store_true", help="show it anew every two seconds until interrupted")
    add_url(parser)


def run(arguments: Namespace) -> int:
    """Asks the URL if there is one; the cluster where it does not answer, or without one."""
    notes: tuple[str, ...] = ()
    if arguments.url:
        try:
            return asyncio.run(_show(partial(from_reconciler, arguments.url), arguments))
        except OutputError:
            raise
        except EbbtideError as error:
            notes = (str(error),)
            remark(f"{error}; asking the cluster instead")
    return ask(arguments, partial(_of_cluster, arguments, notes))


async def _of_cluster(arguments: Namespace, notes: tuple[str, ...], client: Client, settings: Settings) -> int:
    inquiry = Inquiry(client, settings, settings.home)

    async def look() -> Answer:
        found = await from_cluster(inquiry, settings, SystemClock())
        return replace(found, notes=(*notes, *found.notes))

    return await _show(look, arguments)


async def _show(look: Look, arguments: Namespace) -> int:
    """Prints one answer, or with `--watch` answers until interrupted: drawn anew on a terminal."""
    terminal = Terminal()
    told: tuple[str, ...] = ()
    redraws = arguments.watch and arguments.output == "table" and terminal.is_terminal
    with Live(console=terminal, auto_refresh=False) if redraws else nullcontext() as live:
        async with aclosing(_answers(look)) as answers:
            async for answer in answers:
                if live is not None:
                    live.update(picture(answer, terminal.width), refresh=True)
                elif arguments.output == "table":
                    terminal.show(picture(answer, terminal.width))
                else:
                    told = _note(answer, told)
                    print_json(answer.document, indented=not arguments.watch)
                if not arguments.watch:
                    return 0
    raise AssertionError("answers do not end")


async def _answers(look: Look) -> AsyncGenerator[Answer, None]:
    """One answer after the other; a failure, which may pass, becomes a note on the last answer, if there is one."""
    loop, last = asyncio.get_running_loop(), None
    while True:
        begun = loop.time()
        try:
            last = await look()
        except (KubeError, EbbtideError) as error:
            if last is None:
                raise
            last = Answer(last.document, (f"this is of {last.document['at']}, and no newer state can be had: {error}",))
        yield last
        await asyncio.sleep(max(_EVERY_SECONDS, _REST_FOR_WORK * (loop.time() - begun)))


def _note(answer: Answer, told: tuple[str, ...]) -> tuple[str, ...]:
    """Says on standard error what the document does not, unless that was said last."""
    if answer.notes != told:
        for note in answer.notes:
            remark(f"note: {plain(note)}")
    return answer.notes
