"""For everybody: screen readers, keyboards, phones, light and dark."""

from typing import Literal

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.chromium import page_of, violations
from tests.browser.stage import Stage, every_verdict, staged, state
from tests.reconciler.rebalance.builders import node

pytestmark = pytest.mark.asyncio(loop_scope="session")
PHONE = {"width": 320, "height": 640}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


async def open_everything(page: Page) -> None:
    for summary in await page.locator("summary").all():
        await summary.click()
    await expect(page.locator("details:not([open])")).to_have_count(0)
    await expect(page.locator("details > ul")).to_have_count(await page.locator("details").count())


async def focused(page: Page) -> str:
    """The words of what has the focus."""
    return str(await page.evaluate("document.activeElement.innerText"))


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_axe_finds_nothing(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    async with (
        staged(Stage(every_verdict())) as stage,
        page_of(browser, stage.url, color_scheme=scheme) as watched,
    ):
        await expect(watched.page.locator("#zones .card")).to_have_count(8)
        await open_everything(watched.page)
        assert await violations(watched.page) == []
        stage.error = "starting"
        await expect(watched.page.locator("#connection")).to_contain_text("out of date")
        assert await violations(watched.page) == []
        assert watched.besides_the_server == []


async def test_axe_would_find_something(browser: Browser) -> None:
    """It runs under the policy of the page, and sees what is there."""
    async with staged(Stage(state())) as stage, page_of(browser, stage.url) as watched:
        await watched.page.evaluate("document.body.append(document.createElement('input'))")
        assert [each.partition(":")[0] for each in await violations(watched.page)] == ["label", "region"]


async def test_light_and_dark_follow_the_reader(browser: Browser) -> None:
    async with staged(Stage(state())) as stage:
        grounds = []
        for scheme in SCHEMES:
            async with page_of(browser, stage.url, color_scheme=scheme) as watched:
                ground = "getComputedStyle(document.documentElement).backgroundColor"
                grounds.append(await watched.page.evaluate(f"{ground}.match(/\\d+/g).map(Number)"))
        light, dark = grounds
        assert min(light) > 200
        assert max(dark) < 60


async def test_nothing_sticks_out_of_a_phone(browser: Browser) -> None:
    async with staged(Stage(every_verdict())) as stage, page_of(browser, stage.url, viewport=PHONE) as watched:
        await expect(watched.page.locator("#zones .card")).to_have_count(8)
        await open_everything(watched.page)
        assert await watched.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


async def test_sections_are_landmarks_that_can_be_jumped_to(browser: Browser) -> None:
    async with staged(Stage(every_verdict())) as stage, page_of(browser, stage.url) as watched:
        for name in ("Zones", "Admission", "Load-data workers", "Last decisions"):
            await expect(watched.page.get_by_role("region", name=name)).to_have_count(1)
            await expect(watched.page.get_by_role("heading", name=name, level=2)).to_have_count(1)
        for role in ("banner", "main", "contentinfo"):
            await expect(
                watched.page.locator({"banner": "header", "contentinfo": "footer"}.get(role, role))
            ).to_have_count(1)
        await expect(watched.page.get_by_role("status")).to_have_attribute("aria-live", "polite")


async def test_drawings_are_left_out_for_those_who_listen_and_words_say_the_same(browser: Browser) -> None:
    async with staged(Stage(every_verdict())) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#zones .card")).to_have_count(8)
        await expect(watched.page.locator("svg:not([aria-hidden=true])")).to_have_count(0)
        told = await watched.page.get_by_role("article", name="prod / us-east-1a").aria_snapshot()
        assert "blocked" in told
        assert "8 nodes: 2 signalled, 8 tainted, 1 cordoned" in told


async def test_a_keyboard_is_enough(browser: Browser) -> None:
    """Past the head, to a zone by its tile, and into the list of its nodes, which an answer does not close."""
    async with (
        staged(Stage(state([node("a1", signal=400, prevent=True)]))) as stage,
        page_of(browser, stage.url) as watched,
    ):
        page = watched.page
        await expect(page.locator("#overview .tile")).to_have_count(1)
        await page.keyboard.press("Tab")
        assert await focused(page) == "Skip to the zones"
        await page.keyboard.press("Enter")
        await expect(page.locator("#main")).to_be_focused()
        await page.keyboard.press("Tab")
        assert "blocked" in await focused(page)
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        assert await focused(page) == "1 node: 1 signalled, 1 tainted"
        await page.keyboard.press("Enter")
        await expect(page.locator(".nodes li")).to_have_text(["a1signalledtainted"])
        stage.state = state([node("a1", signal=500, prevent=True, cordoned=True)])
        await expect(page.locator(".nodes li")).to_have_text(["a1signalledtaintedcordoned"])
        assert await focused(page) == "1 node: 1 signalled, 1 tainted, 1 cordoned"


async def test_what_has_the_focus_can_be_seen(browser: Browser) -> None:
    async with staged(Stage(every_verdict())) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#overview .tile")).to_have_count(8)
        for _ in range(12):
            await watched.page.keyboard.press("Tab")
            outline = await watched.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid", await focused(watched.page)
