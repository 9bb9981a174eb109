"""Chromium as it is installed, driven by Playwright, and what every page of it has to keep to."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

VARIABLE: Final = "EBBTIDE_CHROMIUM"
# Milliseconds for which anything is waited for: far more than it takes, for busy machines.
PATIENCE: Final = 120_000.0
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_HINT: Final = (
    "The status page is tested in Chromium, and none was found. On Debian: apt-get install chromium. "
    f"One in another place is named by {VARIABLE}=/path/to/chromium."
)


class NoChromiumError(Exception):
    """There is no Chromium; the message says what would help."""


def executable() -> str:
    """Where Chromium is. Raises NoChromiumError."""
    named = os.environ.get(VARIABLE)
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None or not os.access(found, os.X_OK):
        raise NoChromiumError(f"{VARIABLE}={named} cannot be run." if named else _HINT)
    return found


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser without a window; every test has pages of its own in it."""
    path = executable()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, timeout=PATIENCE)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass  # without slots: Playwright notes on it whom it calls
class Watched:
    """A page, and what went wrong in it: errors of scripts, of the policy, of loading; requests to elsewhere.

    Connections that are refused are what a page that outlives its server has to bear; the browser tells of them as of
    errors, so a test that takes the server away asks for `besides_the_server`.
    """

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._request)

    @property
    def besides_the_server(self) -> list[str]:
        return [each for each in self.complaints if "Failed to load resource" not in each]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.origin, "data:")):
            self.complaints.append(f"asks {request.url}")


@asynccontextmanager
async def page_of(browser: Browser, url: str, **options: Any) -> AsyncIterator[Watched]:
    """The page at `url` in a profile of its own; `options` as for a browser context."""
    context = await browser.new_context(**{"timezone_id": "UTC", "locale": "en-GB"} | options)
    context.set_default_timeout(PATIENCE)
    try:
        watched = Watched(await context.new_page(), url)
        await watched.page.goto(url)
        yield watched
    finally:
        await context.close()


async def violations(page: Page) -> list[str]:
    """What axe holds against the page as it is now, with the elements concerned."""
    source = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    await page.evaluate(source)
    # Rules of the guidelines and of good practice; what axe itself calls experimental is left out.
    found = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found["violations"]]
