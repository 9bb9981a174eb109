"""What the page shows, and how it follows what changes."""

import pytest
from playwright.async_api import Browser, expect

from reconciler.rebalance.verdict import State
from tests.browser.chromium import page_of
from tests.browser.stage import Stage, every_verdict, staged, state
from tests.reconciler.rebalance.builders import node

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_every_verdict_is_shown_with_its_reason_and_what_to_do(browser: Browser) -> None:
    told = every_verdict()
    assert {cell["state"] for cell in told["cells"]} == set(State)
    async with staged(Stage(told)) as stage, page_of(browser, stage.url) as watched:
        for cell in told["cells"]:
            card = watched.page.get_by_role("article", name=f"{cell['group']} / {cell['zone']}")
            await expect(card.locator(".badge")).to_have_text(cell["state"])
            await expect(card).to_contain_text(cell["reason"])
            await expect(card).to_contain_text(cell["advice"])
            tile = watched.page.get_by_role("listitem").filter(has_text=cell["group"]).get_by_role("link")
            await expect(tile.filter(has_text=f"{cell['zone']} {cell['state']}")).to_have_count(1)
        assert watched.complaints == []
