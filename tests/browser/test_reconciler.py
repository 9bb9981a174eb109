"""The page of a real reconciler on the embedded cluster: what happens there is seen in the browser."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from playwright.async_api import Browser, expect

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.service.listening import bind
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from reconciler.main import run
from tests.browser.chromium import page_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
NAMESPACE = "ebbtide-system"
OLD_SIGNAL = objects.taint(vocabulary.SIGNAL_TAINT_KEY, "1600000000")


@asynccontextmanager
async def reconciler(cluster: Cluster) -> AsyncIterator[str]:
    """One more replica; the address of its page."""
    listening, stopping = bind("127.0.0.1", 0), asyncio.Event()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    program = asyncio.create_task(run(Settings(), cluster.access(), stopping=stopping, listening=listening))
    try:
        yield address
    finally:
        stopping.set()
        await program


@asynccontextmanager
async def quiet_cluster() -> AsyncIterator[Cluster]:
    """Group g with two zones of two nodes each."""
    async with Cluster() as cluster:
        cluster.create(objects.namespace(NAMESPACE))
        cluster.create(*(objects.node(name, group="g", zone=name[0]) for name in ("a1", "a2", "b1", "b2")))
        yield cluster


async def test_a_signal_closes_its_zone_before_the_readers_eyes(browser: Browser) -> None:
    async with quiet_cluster() as cluster, reconciler(cluster) as address, page_of(browser, address) as watched:
        page = watched.page
        zone = page.get_by_role("article", name="g / a")
        await expect(zone.locator(".badge")).to_have_text("open")
        await expect(page.locator("#leader")).to_contain_text("Leader:")
        cluster.create(objects.node("a3", group="g", zone="a", taints=[OLD_SIGNAL]))
        await expect(zone.locator(".badge")).to_have_text("blocked")
        await expect(zone).to_contain_text("3 nodes: 1 signalled, 3 tainted")
        await expect(zone).to_contain_text("Closed to new guarded pods.")
        await expect(page.get_by_role("region", name="Last decisions")).to_contain_text("ZoneBlocked")
        await expect(page.get_by_role("article", name="g / b").locator(".badge")).to_have_text("open")
        assert watched.besides_the_server == []


async def test_a_follower_names_the_leader_and_takes_over_on_the_same_page(browser: Browser) -> None:
    async with quiet_cluster() as cluster, AsyncExitStack() as second:
        async with reconciler(cluster) as leading, page_of(browser, leading) as watched:
            await expect(watched.page.locator("#leader")).to_contain_text("Leader:")
            leader = await watched.page.locator("#leader bdi").inner_text()
            following = await second.enter_async_context(reconciler(cluster))
            page = (await second.enter_async_context(page_of(browser, following))).page
            await expect(page.locator("#leader")).to_contain_text("which does not lead")
            await expect(page.locator("#leader")).to_contain_text(f"Leader: {leader}")
            await expect(page.locator("#decisions")).to_have_text("Only the leader knows what was decided.")
        await expect(page.locator("#leader")).not_to_contain_text("which does not lead")
        await expect(page.locator("#leader bdi")).not_to_have_text(leader)
        await expect(page.locator("#decisions")).to_have_text("None since this process began to lead.")
        await expect(page.get_by_role("status")).to_contain_text(" leads")
