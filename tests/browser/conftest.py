"""One Chromium for all tests of this folder. A machine without one fails them with a hint; nothing is skipped."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.chromium import PATIENCE, NoChromiumError, chromium

expect.set_options(timeout=PATIENCE)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    try:
        async with chromium() as launched:
            yield launched
    except NoChromiumError as error:
        pytest.fail(str(error), pytrace=False)
