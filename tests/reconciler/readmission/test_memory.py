"""What earlier deletions teach about later ones."""

from reconciler.readmission.decide import OwnerKey
from reconciler.readmission.memory import CONFIRM_WITHIN, LONGEST_PAUSE, Memory, OwnerMemory
from tests.reconciler.readmission.builders import WEB


def deleted(memory: OwnerMemory, now: float, right: bool | None, uid: str = "u") -> bool:
    """A deletion, the pod's end, and a successor that is right, wrong, or cannot be judged."""
    memory.asking(uid, now)
    memory.gone(uid)
    return memory.came(right, now)


def test_wh_62_pauses_double_up_to_an_hour() -> None:
    """One deletion, the next after 1 min, 2 min, 4 min … 1 h."""
    memory, now, pauses = OwnerMemory(), 0.0, []
    for _ in range(9):
        assert deleted(memory, now, right=False)
        pauses.append(memory.history(now).retry_in)
        now += pauses[-1]
        assert memory.history(now).retry_in == 0
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_wh_62_a_webhook_may_be_away_for_months() -> None:
    """The five thousandth deletion in vain is followed by a pause of an hour as well."""
    memory = OwnerMemory()
    for tried in range(5000):
        assert deleted(memory, float(tried), right=False)
    assert (memory.futile, memory.history(4999.0).retry_in) == (5000, LONGEST_PAUSE)


def test_wh_62_one_that_comes_back_right_ends_the_pause() -> None:
    """Also one that nobody deleted."""
    memory = OwnerMemory()
    deleted(memory, 0.0, right=False)
    assert not memory.came(True, 1.0)
    assert (memory.history(1.0).retry_in, memory.futile) == (0, 0)


def test_a_successor_is_awaited_for_a_minute() -> None:
    """An owner that was scaled down meanwhile makes none."""
    memory = OwnerMemory()
    memory.asking("u", 10.0)
    assert memory.history(10.0).confirms_in == CONFIRM_WITHIN
    assert memory.history(10.0 + CONFIRM_WITHIN).confirms_in == 0


def test_a_pod_that_came_before_the_other_had_gone_proves_nothing() -> None:
    """It was made before the deletion."""
    memory = OwnerMemory()
    memory.asking("u", 0.0)
    assert not memory.came(False, 0.0)
    assert memory.history(0.0).confirms_in > 0
    memory.gone("another")
    assert not memory.came(False, 0.0)
    assert memory.futile == 0


def test_a_successor_that_cannot_be_judged_ends_the_waiting_and_counts_for_nothing() -> None:
    """The zones changed while it was being made."""
    memory = OwnerMemory()
    assert not deleted(memory, 0.0, right=None)
    assert memory.history(0.0) == OwnerMemory().history(0.0)


def test_a_deletion_that_was_refused_is_not_awaited() -> None:
    """Nothing was deleted, so nothing comes."""
    memory = OwnerMemory()
    memory.asking("u", 0.0)
    memory.refused()
    assert memory.history(0.0).confirms_in == 0


def test_only_what_is_over_is_forgotten() -> None:
    """A pause, and the count that makes the next one longer, outlive the pods."""
    memory, owner = Memory(), OwnerKey("default", WEB)
    deleted(memory.of(owner), 100000.0, right=False)
    memory.sweep(100060.0 + LONGEST_PAUSE)
    assert memory.known(owner) is not None
    memory.sweep(100061.0 + LONGEST_PAUSE)
    assert memory.known(owner) is None
