"""Random histories of imports: whatever happens in whatever order, the laws hold and nothing remains in the end.

`make simulate OF=loads` plays a thousand.
"""

import time
from collections import Counter

from tests.simulation.loads.history import run
from tests.simulation.replay import failure

# Seconds of the processor for one run of the tests; the seeds are always the same ones, in this order.
BUDGET = 24.0
LEAST, MOST = 6, 200


def test_whatever_happens_imports_end_and_leave_nothing() -> None:
    end = time.process_time() + BUDGET
    met: Counter[str] = Counter()
    for seed in range(MOST):
        if seed >= LEAST and time.process_time() > end:
            break
        account = run(seed)
        assert not account.broken, failure(account)
        met.update(account.met)
    # Or they would prove nothing of some placement, or of some answer.
    assert {"local", "dedicated", "shared", "init 302", "init 503", "state 302", "cancel 200", "data 404"} <= met.keys()


def test_equal_histories_lead_to_equal_writes() -> None:
    once, again = run(11), run(11)
    assert once.writes
    assert once.writes == again.writes
    assert once.diary == again.diary
