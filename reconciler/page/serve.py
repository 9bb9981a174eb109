"""The page as one document, under a policy that lets it run its own script, apply its own style and ask its own origin.

Script and style are named in the policy by their hashes, so that nothing that gets into the page by way of the cluster
could run, and Trusted Types take markup from strings away altogether.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from typing import Final

from aiohttp import web

# In the order in which they build on each other.
SCRIPTS: Final = ("dom", "words", "icons", "zones", "workers", "decisions", "live")
_STYLE_HERE: Final = "/* style */"
_SCRIPT_HERE: Final = "/* script */"


def routes() -> Sequence[web.RouteDef]:
    """`/`, with the page read and put together once."""
    return (web.get("/", partial(_show, page().encode(), headers())),)


def page() -> str:
    """The whole document."""
    return _read("page.html").replace(_STYLE_HERE, _style()).replace(_SCRIPT_HERE, _script())


def headers() -> dict[str, str]:
    """What a browser is told to hold the page to."""
    policy = {
        "default-src": "'none'",
        "script-src": _named(_script()),
        "style-src": _named(_style()),
        "img-src": "data:",  # its own icon
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",  # the next version of the program may have another page
    }


async def _show(body: bytes, told: dict[str, str], _request: web.Request) -> web.Response:
    return web.Response(body=body, content_type="text/html", charset="utf-8", headers=told)


def _style() -> str:
    return _read("style.css")


def _script() -> str:
    return "\n".join(_read("script", f"{name}.js") for name in SCRIPTS)


def _named(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _read(*path: str) -> str:
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")
