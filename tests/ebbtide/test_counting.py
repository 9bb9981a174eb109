"""One thing is one thing, and none are several."""

import pytest

from ebbtide.counting import count


@pytest.mark.parametrize(
    ("counted", "words"),
    [
        (count(0, "node"), "0 nodes"),
        (count(1, "node group"), "1 node group"),
        (count(2, "node group"), "2 node groups"),
        (count(1, "policy", "policies"), "1 policy"),
        (count(3, "policy", "policies"), "3 policies"),
    ],
)
def test_a_noun_follows_its_number(counted: str, words: str) -> None:
    assert counted == words
