"""Random histories: whatever happens in whatever order, the invariants hold and the cluster comes to its rest.

`make simulate` plays a thousand and more.
"""

import time

import pytest

from tests.simulation.history import run
from tests.simulation.replay import failure

# Real seconds for one run of the tests; the seeds that are played in them are always the same ones, in this order.
BUDGET = 45.0
LEAST, MOST = 16, 400


def test_whatever_happens_the_cluster_comes_to_the_rest_that_it_has_to() -> None:
    end = time.monotonic() + BUDGET
    for seed in range(MOST):
        if seed >= LEAST and time.monotonic() > end:
            break
        account = run(seed)
        assert not account.broken, failure(account)


@pytest.mark.parametrize("seed", [3, 2026])
def test_equal_histories_lead_to_equal_writes(seed: int) -> None:
    once, again = run(seed), run(seed)
    assert once.writes
    assert once.writes == again.writes
    assert once.diary == again.diary
