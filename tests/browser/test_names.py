"""Whatever the cluster calls things: it is shown as text, and does nothing."""

from typing import Any, Final

import pytest
from playwright.async_api import Browser, expect

from ebbtide.model import Cell
from tests.browser.chromium import page_of, violations
from tests.browser.stage import Document, Stage, every_verdict, staged, state
from tests.reconciler.rebalance.builders import node

pytestmark = pytest.mark.asyncio(loop_scope="session")
HOSTILE: Final = {
    "script": "<script>window.broken = true</script>",
    "event": '"><img src=x onerror="window.broken = true">',
    "drawing": "<svg onload='window.broken = true'>",
    "end of style": "</style></script><script>window.broken = true</script>",
    "entity": "&lt;b&gt;&#x41;",
    "link": "javascript:window.broken=true",
    "template": "${window.broken = true}{{window.broken = true}}",
    "turned": "\u202egnorw\u202c",
    "nothing to see": "\u200b\u0000\u001b[31m",
    "long": "x" * 20_000,
    "of every object": "__proto__",
    "of every function": "constructor",
}


FROM_CLUSTER: Final = frozenset(
    {"group", "zone", "name", "node", "reason", "advice", "note", "identity", "task", "worker", "pod", "namespace"}
)


def renamed(value: Any, words: str) -> Any:
    """A document with these words in the place of whatever comes from the cluster."""
    if isinstance(value, list):
        return [renamed(each, words) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: words if key in FROM_CLUSTER and isinstance(each, str) else renamed(each, words)
        for key, each in value.items()
    }


def hostile(words: str) -> Document:
    told: Document = renamed(every_verdict(), words)
    return told | {"webhook": {"blockedZones": {words: [words]}}, "outside": [words]}


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE.keys())
async def test_names_are_text(browser: Browser, words: str) -> None:
    told = hostile(words)
    async with (
        staged(Stage(told)) as stage,
        page_of(browser, stage.url, viewport={"width": 360, "height": 800}) as watched,
    ):
        page = watched.page
        await expect(page.locator("#zones h3")).to_have_count(8)
        await page.locator("summary").first.click()
        await expect(page.locator(".nodes li").first).to_be_visible()
        shown = await page.locator("#zones h3 bdi").first.evaluate("(element) => element.textContent")
        assert shown == words
        assert await page.evaluate("'broken' in window") is False
        assert await page.locator("main img, main script, main style, main b b").count() == 0
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        assert watched.complaints == []


@pytest.mark.parametrize("group", ["constructor", "__proto__", "toString"])
async def test_a_group_may_be_called_what_every_object_has(browser: Browser, group: str) -> None:
    """Without a closed zone nothing is found under its name."""
    told = state([node("a1", cell=Cell(group, "a"))])
    async with staged(Stage(told)) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#zones h3")).to_have_text([f"{group} / a"])
        assert watched.complaints == []


async def test_names_may_be_many_and_long_without_harm_to_those_who_listen(browser: Browser) -> None:
    async with staged(Stage(hostile("<script>" + "x" * 300))) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#zones h3")).to_have_count(8)
        # Zones of one name have one address: only here, where all of them are called the same.
        assert [each for each in await violations(watched.page) if not each.startswith("duplicate-id")] == []


async def test_a_script_that_got_in_would_not_run(browser: Browser) -> None:
    """The policy stands behind it: neither markup nor a script of somebody else's does anything."""
    async with staged(Stage(state([node("a1")]))) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#zones h3")).to_have_count(1)
        refused = "(() => { try { document.body.innerHTML = '<b>x</b>'; return false } catch { return true } })()"
        assert await watched.page.evaluate(refused) is True
        added = "const s = document.createElement('script'); s.append('window.broken = true'); document.body.append(s)"
        await watched.page.evaluate(f"(() => {{ try {{ {added} }} catch {{}} }})()")
        assert await watched.page.evaluate("'broken' in window") is False


async def test_no_other_page_can_frame_it(browser: Browser) -> None:
    async with staged(Stage(state())) as stage, page_of(browser, "about:blank") as watched:
        page = watched.page
        await page.evaluate(
            "(url) => new Promise((done) => { const frame = document.createElement('iframe');"
            " frame.addEventListener('load', done); frame.src = url; document.body.append(frame) })",
            stage.url,
        )
        assert [frame.url for frame in page.frames[1:]] == ["chrome-error://chromewebdata/"]
