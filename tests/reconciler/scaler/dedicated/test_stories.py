"""What operators are told of dedicated workers."""

import pytest

from reconciler.scaler.dedicated.decide import Trouble
from reconciler.scaler.dedicated.stories import troubled


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("words", ["0/3 nodes are available: 3 Insufficient cpu.", "0/3 nodes are available"])
def test_a_sentence_of_the_scheduler_ends_with_one_full_stop(trouble: Trouble, words: str) -> None:
    note = troubled(trouble, words).note
    assert note.endswith(".")
    assert not note.endswith("..")
