"""What the process keeps in memory has an end, whatever is asked of it at once."""

import asyncio
from pathlib import Path

import yaml

from bench import reviews
from bench.resources import peak_mb
from tests.chart.helm import CHART
from tests.webhook.large import Creator
from tests.webhook.program import program

# Together they are more than the chart lets it have.
COUNT = 100
SIZE = 6_500_000


def limit_mb() -> float:
    """Of the chart, in 10^6 bytes."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    limit = str(values["webhook"]["resources"]["limits"]["memory"])
    return int(limit.removesuffix("Mi")) * (1 << 20) / 1e6


async def test_very_many_of_the_largest_reviews_are_answered_within_the_memory_of_the_chart(tmp_path: Path) -> None:
    """Each with 200 at last, and small ones meanwhile."""
    assert limit_mb() < COUNT * SIZE / 1e6
    async with program(tmp_path) as running:
        creator = Creator(running.port, running.authority.client, reviews.body(SIZE))
        creating = asyncio.ensure_future(creator.many(COUNT))
        while not creating.done():
            assert await running.admit() == "a"
        assert len(await creating) == COUNT
        assert peak_mb(running.process.pid) < limit_mb()
