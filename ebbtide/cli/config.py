"""`ebbtide config check FILE` and `ebbtide config show`."""

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from ebbtide.config import Loaded, load
from ebbtide.config.show import as_json, as_text, as_toml
from ebbtide.counting import count
from ebbtide.service.ending import remark

_SHAPES: Final = {"text": as_text, "json": as_json, "toml": as_toml}
_OVERRIDES: Final = "Environment variables EBBTIDE__SECTION__KEY override the file."


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    about = "report every problem of a file"
    check = actions.add_parser("check", help=about, description=f"{_sentence(about)} {_OVERRIDES}")
    check.add_argument("config", metavar="FILE", type=Path, help="the TOML file")
    check.set_defaults(action=_check)

    about = "print every key with its value and where that came from"
    show = actions.add_parser("show", help=about, description=f"{_sentence(about)} {_OVERRIDES}")
    show.add_argument(
        "--config", metavar="PATH", type=Path, default=_named(), help="the TOML file (env EBBTIDE_CONFIG)"
    )
    show.add_argument("--output", choices=tuple(_SHAPES), default="text", help="default: %(default)s")
    show.set_defaults(action=_show)


def run(arguments: Namespace) -> int:
    loaded = load(arguments.config, os.environ)
    for warning in loaded.warnings:
        remark(f"warning: {warning}")
    arguments.action(arguments, loaded)
    return 0


def _check(arguments: Namespace, loaded: Loaded) -> None:
    sqs = loaded.settings.signals.sqs
    if sqs.queue_url:
        # It takes half a second to import, and most have no queue.
        from reconciler.signals.wiring import opening_of  # noqa: PLC0415

        opening_of(sqs, os.environ)
    remark = f", with {count(len(loaded.warnings), 'warning')}" if loaded.warnings else ""
    print(f"{arguments.config}: fine{remark}")


def _show(arguments: Namespace, loaded: Loaded) -> None:
    sys.stdout.write(_SHAPES[arguments.output](loaded))


def _named() -> Path | None:
    path = os.environ.get("EBBTIDE_CONFIG")
    return Path(path) if path else None


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
