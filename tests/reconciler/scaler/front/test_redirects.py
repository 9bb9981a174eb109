"""Where clients are sent, letter by letter."""

from tests.reconciler.scaler.front.stage import WORKER, front, init, known, state


async def test_ws_01_the_address_carries_no_query_no_slash_and_no_body() -> None:
    async with front(known()) as stage:
        answer = await stage.ask("POST", init())
        assert (answer.status, answer.headers["Location"], answer.text) == (302, f"{WORKER}/load_data", "")


async def test_ws_02_a_restarted_client_finds_its_import() -> None:
    async with front(known()) as stage:
        found = [await stage.ask("GET", state()), await stage.ask("POST", init())]
        assert [(each.status, each.headers["Location"]) for each in found] == [(302, f"{WORKER}/load_data")] * 2
