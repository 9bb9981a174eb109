"""The table of places."""

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.scaler.contract import Target
from reconciler.scaler.placement import Rules, decide

GB: Final = 1 << 30
OFF: Final = Rules()
ON: Final = Rules(pool=True)

CASES: Final = {
    "WS-11 a byte more than spawn-data-size": (2 * GB + 1, 0, OFF, Target.DEDICATED),
    "WS-11 nine run on the least busy pod": (2 * GB, 9, OFF, Target.DEDICATED),
    "WS-11 eight run on the least busy pod": (2 * GB, 8, OFF, Target.LOCAL),
    "WS-11 one byte, eight run": (1, 8, OFF, Target.LOCAL),
    "WS-11 one byte, nine run": (1, 9, OFF, Target.DEDICATED),
    "WS-11 no size, whatever runs": (0, 50, OFF, Target.LOCAL),
    "WS-11 no local pod can be asked": (1, None, OFF, Target.LOCAL),
    "WS-11 no limit of running tasks": (1, 1, replace(OFF, running=0), Target.DEDICATED),
    "WS-11 pool, spawn-data-size": (2 * GB, 50, ON, Target.SHARED),
    "WS-11 pool, no size": (0, 50, ON, Target.SHARED),
    "WS-11 pool, a byte more": (2 * GB + 1, 0, ON, Target.DEDICATED),
    "WS-11 as large as can be": (1 << 40, 0, OFF, Target.DEDICATED),
    "WS-11 too large": ((1 << 40) + 1, 0, OFF, None),
    "WS-11 too large for the pool too": ((1 << 40) + 1, 0, ON, None),
}


@pytest.mark.parametrize(("size", "running", "rules", "target"), CASES.values(), ids=CASES)
def test_place(size: int, running: int | None, rules: Rules, target: Target | None) -> None:
    """Each edge of size and load."""
    assert decide(size, running, rules).target is target


def test_what_a_client_is_told_of_a_size_that_is_too_large() -> None:
    """The words that clients know."""
    reason = decide((1 << 40) + 1, 0, OFF).reason
    assert reason == "data size 1099511627777 exceeds max data size 1099511627776"


@given(
    size=st.integers(0, 1 << 41),
    running=st.none() | st.integers(0, 100),
    rules=st.builds(
        Rules,
        max_size=st.integers(0, 1 << 41),
        spawn_size=st.integers(0, 1 << 41),
        running=st.integers(0, 50),
        pool=st.booleans(),
    ),
)
def test_only_small_tasks_share(size: int, running: int | None, rules: Rules) -> None:
    """Whatever is configured: nothing above a limit gets below it, and local and shared exclude each other."""
    target = decide(size, running, rules).target
    assert (target is None) == (size > rules.max_size)
    if target in (Target.LOCAL, Target.SHARED):
        assert size <= rules.spawn_size
        assert (target is Target.SHARED) == rules.pool
