"""Draws the pictures of the status page in the documentation: `python -m tests.browser.pictures`."""

import asyncio
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, expect

from tests.browser.chromium import chromium, page_of
from tests.browser.stage import Stage, every_verdict, staged

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "images"
PICTURES: Final[dict[str, dict[str, Any]]] = {
    "status-light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 1050}},
    "status-dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 1050}},
    "status-phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 760}},
}
_WORKERS: Final = "status-workers"


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


async def _main() -> None:
    FOLDER.mkdir(exist_ok=True)
    async with chromium() as browser:
        await draw(browser, FOLDER)


if __name__ == "__main__":
    asyncio.run(_main())
