"""Draws the pictures of the status page in the documentation: `python -m tests.browser.pictures`.

Beside them is kept what they were drawn from, as a hash: `make check` fails when the page, what it shows or this file
has changed since.
"""

import asyncio
import hashlib
from pathlib import Path
from typing import Any, Final

import orjson
from playwright.async_api import Browser, expect

from reconciler.page.serve import page
from tests.browser.chromium import chromium, page_of
from tests.browser.stage import Stage, every_verdict, staged

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "images"
DRAWN_FROM: Final = FOLDER / "status.sha256"
PICTURES: Final[dict[str, dict[str, Any]]] = {
    "status-light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 1050}},
    "status-dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 1050}},
    "status-phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 760}},
}
_WORKERS: Final = "status-workers"


def drawn_from() -> str:
    """The hash of everything that decides how the pictures look, but for the browser."""
    state = orjson.dumps(every_verdict(), option=orjson.OPT_SORT_KEYS)
    parts = (page().encode(), state, Path(__file__).read_bytes())
    return f"{hashlib.sha256(b''.join(hashlib.sha256(each).digest() for each in parts)).hexdigest()}\n"


async def draw(browser: Browser, folder: Path) -> None:
    """Writes every picture into the folder."""
    async with staged(Stage(every_verdict())) as stage:
        for name, options in PICTURES.items():
            async with page_of(browser, stage.url, **options) as watched:
                await expect(watched.page.locator("#zones .card")).to_have_count(8)
                await watched.page.screenshot(path=folder / f"{name}.png")
        async with page_of(browser, stage.url, viewport={"width": 1200, "height": 1050}) as watched:
            workers = watched.page.get_by_role("region", name="Load-data workers")
            await expect(workers.locator(".pods li").first).to_be_visible()
            await workers.screenshot(path=folder / f"{_WORKERS}.png")
    (folder / DRAWN_FROM.name).write_text(drawn_from(), encoding="utf-8")


async def _main() -> None:
    FOLDER.mkdir(exist_ok=True)
    async with chromium() as browser:
        await draw(browser, FOLDER)


if __name__ == "__main__":
    asyncio.run(_main())
