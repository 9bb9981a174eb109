"""What the page shows, and how it follows what changes."""

from dataclasses import replace

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from ebbtide.model import Cell
from reconciler.rebalance.status import CellStatus
from reconciler.rebalance.verdict import State
from reconciler.scaler.describe import WorkersNow
from reconciler.state import Source
from tests.browser.chromium import page_of
from tests.browser.stage import LEADER, Stage, every_verdict, staged, state
from tests.reconciler.rebalance.builders import NOW, node

pytestmark = pytest.mark.asyncio(loop_scope="session")
QUIET = [node("a1"), node("a2"), node("b1")]
SIGNALLED = [node("a1", signal=400, prevent=True), node("a2", prevent=True), node("b1")]


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name)


# --- what is shown -----------------------------------------------------------------------------------------------


async def test_every_verdict_is_shown_with_its_reason_and_what_to_do(browser: Browser) -> None:
    told = every_verdict()
    assert {cell["state"] for cell in told["cells"]} == set(State)
    async with staged(Stage(told)) as stage, page_of(browser, stage.url) as watched:
        for cell in told["cells"]:
            shown = card(watched.page, f"{cell['group']} / {cell['zone']}")
            await expect(shown.locator(".badge")).to_have_text(cell["state"])
            await expect(shown).to_contain_text(cell["reason"])
            await expect(shown).to_contain_text(cell["advice"])
        words = await watched.page.locator("#overview .tile").all_inner_texts()
        assert len(words) == len(told["cells"])
        assert all(any(state in each for each in words) for state in State)
        assert watched.complaints == []


async def test_no_two_verdicts_have_the_same_shape(browser: Browser) -> None:
    """Colour is never all that tells them apart."""
    async with staged(Stage(every_verdict())) as stage, page_of(browser, stage.url) as watched:
        badges = watched.page.locator("#zones .badge")
        await expect(badges).to_have_count(8)
        shapes = {
            str(await badge.get_attribute("data-state")): await badge.locator("svg").inner_html()
            for badge in await badges.all()
        }
        assert set(shapes) == set(State)
        assert len(set(shapes.values())) == len(shapes)


async def test_zones_that_need_somebody_come_first(browser: Browser) -> None:
    async with staged(Stage(every_verdict())) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#zones .badge")).to_have_text(
            ["ineffective", "stale-template", "partial", "cached", "blocked", "waiting", "open", "open"]
        )
        await expect(watched.page).to_have_title(
            "1 ineffective, 1 stale-template, 1 partial, 1 cached, 1 blocked, 1 waiting · ebbtide"
        )


async def test_nodes_and_their_marks_signals_and_closed_zones_are_shown(browser: Browser) -> None:
    async with staged(Stage(every_verdict())) as stage, page_of(browser, stage.url) as watched:
        zone = card(watched.page, "prod / us-east-1a")
        await expect(zone.get_by_role("list", name="Signals").get_by_role("listitem")).to_have_text(
            ["ip-10-0-1-17 signalled 7 min ago", "ip-10-0-1-23 signalled 95 s ago"]
        )
        await expect(zone).to_contain_text("Closed to new guarded pods.")
        await expect(zone.locator(".squares svg")).to_have_count(8)
        await zone.get_by_text("8 nodes: 2 signalled, 8 tainted, 1 cordoned").click()
        await expect(zone.locator(".nodes li").first).to_have_text("ip-10-0-1-17signalledtaintedcordoned")
        closed = watched.page.get_by_role("region", name="Admission").get_by_role("listitem")
        await expect(closed.filter(has=watched.page.locator("ul"))).to_have_text(
            ["produs-east-1aus-east-1d", "stageus-east-1aus-east-1b"]
        )
        await expect(watched.page.locator("#notes")).to_contain_text("left alone: ip-10-0-9-9")


async def test_workers_pool_and_tasks_are_shown(browser: Browser) -> None:
    told = every_verdict()
    async with staged(Stage(told)) as stage, page_of(browser, stage.url) as watched:
        pool = card(watched.page, "Shared pool")
        await expect(pool).to_contain_text("5 pods, 4 usable, 3 wanted by its load; 1 task waiting.")
        await expect(pool).to_contain_text("TailStuck ordinal 4 has never run")
        await expect(pool.locator(".pods li")).to_have_text(
            [
                "#0usable 16 running, 1 ended",
                "#1usable 17 running, 2 promised",
                "#2usable 9 running, 1 promised, 3 ended",
                "#3usable 2 ended, idle for 42 s",
                "#4starting no tasks",
            ]
        )
        widths = [
            float(str(await bar.get_attribute("width")))
            for bar in await pool.locator(".pods li").nth(1).locator(".running, .reserved").all()
        ]
        assert widths == pytest.approx([100 * 17 / 24, 100 * 2 / 24]), "of the most tasks that a pod is given"
        await expect(card(watched.page, "Dedicated workers")).to_contain_text("NoCapacity: its pod is not ready yet.")
        await card(watched.page, "Tasks").get_by_text("3 tasks: 1 running, 1 waiting, 1 ended").click()
        await expect(card(watched.page, "Tasks")).to_contain_text("1-170-139-1ended 1.0 GiB, shared on ldw-shared-1")
        assert watched.complaints == []


async def test_decisions_are_told_with_time_object_and_reason(browser: Browser) -> None:
    async with staged(Stage(every_verdict())) as stage, page_of(browser, stage.url) as watched:
        items = watched.page.get_by_role("region", name="Last decisions").get_by_role("listitem")
        await expect(items).to_have_count(3)
        first = items.first
        await expect(first).to_contain_text("11:59:00 · 60 s ago · warning EvictionForbidden")
        await expect(first).to_contain_text("Pod db/tikv-3: The pod is not evicted: that is not permitted.")


async def test_an_empty_cluster_is_a_page_too(browser: Browser) -> None:
    async with staged(Stage(state())) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#overview")).to_have_text("No node belongs to a zone of a node group.")
        await expect(watched.page.locator("#workers")).to_have_text("The worker scaler is switched off.")
        await expect(watched.page.locator("#decisions")).to_contain_text("None")
        await expect(watched.page).to_have_title("all zones open · ebbtide")
        assert watched.complaints == []


async def test_a_cluster_of_thousands_of_nodes_is_shown_in_short(browser: Browser) -> None:
    nodes = [node(f"a{number}") for number in range(3000)]
    async with staged(Stage(state(nodes))) as stage, page_of(browser, stage.url) as watched:
        zone = card(watched.page, "g / a")
        await expect(zone.locator(".squares")).to_have_text("+2800")
        await zone.get_by_text("3000 nodes").click()
        await expect(zone.locator(".nodes li").last).to_have_text("… and 2800 more")


# --- who leads ---------------------------------------------------------------------------------------------------


async def test_one_that_does_not_lead_says_who_does_and_what_it_cannot_know(browser: Browser) -> None:
    told = state(SIGNALLED, source=Source.NODES, answering="ebbtide-1", workers=WorkersNow(run=True))
    async with staged(Stage(told)) as stage, page_of(browser, stage.url) as watched:
        leader = watched.page.locator("#leader")
        await expect(leader).to_contain_text("Asked: ebbtide-1, which does not lead")
        await expect(leader).to_contain_text("Leader: ebbtide-0 for 3.5 h.")
        await expect(card(watched.page, "g / a").locator(".badge")).to_have_text("blocked")
        await expect(watched.page.locator("#workers")).to_have_text("Only the leader knows workers and tasks.")
        await expect(watched.page.locator("#decisions")).to_have_text("Only the leader knows what was decided.")


async def test_without_a_leader_it_says_so(browser: Browser) -> None:
    async with (
        staged(Stage(state(QUIET, None, source=Source.NODES))) as stage,
        page_of(browser, stage.url) as watched,
    ):
        await expect(watched.page.locator("#leader")).to_contain_text("Nobody leads")


async def test_a_leader_that_has_fallen_silent_is_told(browser: Browser) -> None:
    silent = replace(LEADER, renewed=NOW - 90)
    async with staged(Stage(state(QUIET, silent))) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#leader")).to_contain_text("has not renewed its lease for 90 s")


async def test_a_dry_run_says_that_it_is_one(browser: Browser) -> None:
    async with (
        staged(Stage(state(QUIET, None, source=Source.DRY_RUN, answering=""))) as stage,
        page_of(browser, stage.url) as watched,
    ):
        await expect(watched.page.locator("#leader")).to_have_text("A dry run: it decides and changes nothing.")


# --- live --------------------------------------------------------------------------------------------------------


async def test_a_change_is_shown_and_told_without_a_reload(browser: Browser) -> None:
    async with staged(Stage(state(QUIET))) as stage, page_of(browser, stage.url) as watched:
        zone = card(watched.page, "g / a")
        await expect(zone.locator(".badge")).to_have_text("open")
        await watched.page.evaluate("window.loaded = 'once'")
        stage.state = state(SIGNALLED)
        await expect(zone.locator(".badge")).to_have_text("blocked")
        await expect(watched.page.get_by_role("status")).to_contain_text("g/a is blocked, was open")
        await expect(watched.page.locator("#leader")).to_contain_text("Leader: ebbtide-0")
        stage.state = state(SIGNALLED, replace(LEADER, holder="ebbtide-1"))
        await expect(watched.page.get_by_role("status")).to_contain_text("ebbtide-1 leads")
        assert await watched.page.evaluate("window.loaded") == "once"
        assert watched.complaints == []


async def test_ages_go_on(browser: Browser) -> None:
    """Those of signals, and those of states, of which some have no signal."""
    empty = {Cell("g", "c"): CellStatus(State.STALE_TEMPLATE, "its last node left", NOW - 600)}
    async with staged(Stage(state(SIGNALLED, cells=empty))) as stage, page_of(browser, stage.url) as watched:
        signal = card(watched.page, "g / a").get_by_role("list", name="Signals").get_by_role("listitem")
        await expect(signal).to_have_text("a1 signalled 7 min ago")
        await expect(card(watched.page, "g / c").locator(".state")).to_have_text("stale-template for 10 min")
        stage.state = state(SIGNALLED, cells=empty, now=NOW + 3600)
        await expect(signal).to_have_text("a1 signalled 67 min ago")
        await expect(card(watched.page, "g / c").locator(".state")).to_have_text("stale-template for 70 min")


async def test_nothing_is_told_where_nothing_changes(browser: Browser) -> None:
    async with staged(Stage(state(QUIET))) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#connection")).to_contain_text("live")
        await stage.asked_again()
        await expect(watched.page.get_by_role("status")).to_be_empty()


async def test_it_lives_behind_a_proxy_that_adds_a_path(browser: Browser) -> None:
    """The API server's, for one."""
    path = "/api/v1/namespaces/ebbtide-system/pods/ebbtide-0:8080/proxy"
    async with staged(Stage(state(QUIET)), path) as stage, page_of(browser, stage.url) as watched:
        await expect(card(watched.page, "g / a").locator(".badge")).to_have_text("open")
        assert watched.complaints == []
        await watched.page.get_by_role("link", name="readiness").click()
        await expect(watched.page).to_have_url(f"{stage.url}readyz")


async def test_zones_that_come_and_go_take_their_place(browser: Browser) -> None:
    async with staged(Stage(state(QUIET))) as stage, page_of(browser, stage.url) as watched:
        cards = watched.page.locator("#zones h3")
        await expect(cards).to_have_text(["g / a", "g / b"])
        stage.state = state([node("b1", signal=400, prevent=True), node("c1")])
        await expect(cards).to_have_text(["g / b", "g / c"])


async def test_one_that_knows_nothing_yet_is_quoted_until_it_does(browser: Browser) -> None:
    stage = Stage(state(QUIET), error="the list of nodes is not complete yet")
    async with staged(stage), page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#connection")).to_have_text("the list of nodes is not complete yet")
        stage.error = ""
        await expect(watched.page.locator("#connection")).to_contain_text("live, as of 12:00:00")
        assert watched.besides_the_server == []


async def test_a_reconciler_that_stops_answering_leaves_a_page_that_says_how_old_it_is(browser: Browser) -> None:
    stage = Stage(state(QUIET))
    async with page_of(browser, "about:blank") as watched:
        page = watched.page
        async with staged(stage):
            await page.goto(stage.url)
            await expect(page.locator("#connection")).to_contain_text("live")
        await expect(page.locator("#connection")).to_contain_text("out of date: the reconciler does not answer.")
        await expect(page.locator("#connection")).to_contain_text("This is of 12:00:00,")
        await expect(page.get_by_role("status")).to_have_text("No news: the reconciler does not answer.")
        await expect(card(page, "g / a").locator(".badge")).to_have_text("open")


async def test_it_goes_on_when_the_reconciler_comes_back(browser: Browser) -> None:
    """The next leader behind the same address, say."""
    stage = Stage(state(QUIET))
    async with staged(stage), page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#connection")).to_contain_text("live")
        stage.error = "starting"
        await expect(watched.page.locator("#connection")).to_contain_text("out of date: starting.")
        stage.error, stage.state = "", state(SIGNALLED, replace(LEADER, holder="ebbtide-1"), answering="ebbtide-1")
        await expect(watched.page.locator("#connection")).to_contain_text("live")
        await expect(card(watched.page, "g / a").locator(".badge")).to_have_text("blocked")


async def test_one_that_takes_questions_and_never_answers_is_missed_as_well(browser: Browser) -> None:
    async with staged(Stage(state(QUIET))) as stage, page_of(browser, stage.url) as watched:
        await expect(watched.page.locator("#connection")).to_contain_text("live")
        await watched.page.route("**/api/v1/state", lambda _unanswered: None)
        await expect(watched.page.locator("#connection")).to_contain_text(
            "out of date: the reconciler does not answer."
        )


@pytest.mark.parametrize(
    ("body", "words"),
    [("<html>sign in</html>", "is no JSON"), ('{"kind": "Status"}', "is no state of ebbtide")],
    ids=["the sign-in page of a proxy", "another program"],
)
async def test_an_answer_that_is_no_state_is_not_shown_as_one(browser: Browser, body: str, words: str) -> None:
    async with staged(Stage(state(QUIET))) as stage, page_of(browser, "about:blank") as watched:
        await watched.page.route("**/api/v1/state", lambda route: route.fulfill(body=body))
        await watched.page.goto(stage.url)
        await expect(watched.page.locator("#connection")).to_contain_text(words)
