"""The figures of admission can be measured; what comes out is looked at elsewhere."""

import orjson
import pytest

from bench import reviews, webhook, webhook_large
from bench.admission import FLOOR, OURS
from bench.figures import judged
from webhook.alike import MOST, essence


async def test_admission_is_measured_beside_its_floor(capsys: pytest.CaptureFixture[str]) -> None:
    """Every figure has a value of ours and the floor's, from servers that run, with what needs nothing to be built."""
    little = ["--nodes=9", "--rounds=1", "--turns=1", "--seconds=0.1", "--paced-seconds=0.1"]
    await webhook.measure(webhook.flags().parse_args(little))
    printed = capsys.readouterr().out
    assert webhook.COMMAND in printed
    figures = [line.strip() for line in printed.splitlines() if line.startswith(" ") and not line.startswith("  ")]
    assert len(figures) == 2 * (len(webhook.SIZES) + 1) + 5
    assert printed.count("  aim: ") == 2 + 2 + 3
    assert printed.count(", met") + printed.count(", MISSED") == printed.count("  aim: ")
    assert [printed.count(f"  {name} ") for name in (OURS, FLOOR)] == [len(figures)] * 2


def test_pods_that_are_not_alike_are_more_than_are_remembered() -> None:
    """Each is decided anew, with the same answer; so that the figure is that of decisions."""
    bodies = reviews.unlike(2000, webhook.UNLIKE_COUNT)
    found = {orjson.dumps(essence(orjson.loads(body)["request"]["object"])) for body in bodies}
    assert len(found) == webhook.UNLIKE_COUNT > MOST


@pytest.mark.parametrize(
    ("aim", "value", "words"),
    [
        ("", 1.0, ""),
        ("≤ 2.5", 2.5, "  aim: ≤ 2.5, met"),
        ("≤ 2.5", 2.51, "  aim: ≤ 2.5, MISSED"),
        ("< 1", 1.0, "  aim: < 1, MISSED"),
        ("≥ 3000", 3000.0, "  aim: ≥ 3000, met"),
    ],
)
def test_an_aim_is_held_against_the_value(aim: str, value: float, words: str) -> None:
    assert judged(aim, value) == words


async def test_memory_is_measured_beside_the_floor_s(capsys: pytest.CaptureFixture[str]) -> None:
    """While all large reviews are answered."""
    await webhook_large.measure(webhook_large.flags().parse_args(["--nodes=9", "--count=3", "--size=100000"]))
    printed = capsys.readouterr().out
    assert webhook_large.COMMAND in printed
    assert [printed.count(f"\n {name}\n") for name in (OURS, FLOOR)] == [1, 1]
    assert printed.count("peak of the memory") == 2
