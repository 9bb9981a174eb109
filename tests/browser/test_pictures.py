"""The pictures of the documentation are drawn by a command, all of them, and with what they were drawn from."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.browser.pictures import DRAWN_FROM, FOLDER, draw, drawn_from

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_every_picture_that_a_page_shows_is_drawn(browser: Browser, tmp_path: Path) -> None:
    """And no other, with what they were drawn from beside them."""
    await draw(browser, tmp_path)
    assert _names(tmp_path) == _shown() | {DRAWN_FROM.name}
    assert (tmp_path / DRAWN_FROM.name).read_text() == drawn_from()


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _shown() -> set[str]:
    pages = [page.read_text(encoding="utf-8") for page in FOLDER.parent.glob("*.md")]
    return {name for page in pages for name in re.findall(r"images/(status-[\w-]+\.png)", page)}
