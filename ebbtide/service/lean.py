"""Imports structlog without rich, for programs that count their megabytes.

Where rich is installed (the terminal pictures need it) structlog imports it for coloured tracebacks, which
`ebbtide.service.log` does not use: 3 MB of every process. To be imported before anything else imports structlog; who
imports rich later gets it.
"""

import importlib
import sys
from typing import Any, Final, cast

_HIDDEN: Final = "rich"


def _import_alone(name: str) -> None:
    modules = cast("dict[str, Any]", sys.modules)
    if name in modules or _HIDDEN in modules:
        return
    modules[_HIDDEN] = None  # which makes the import fail as though it were not installed
    try:
        importlib.import_module(name)
    finally:
        del modules[_HIDDEN]


_import_alone("structlog")
