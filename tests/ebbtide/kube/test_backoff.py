"""Pauses that double."""

import pytest

from ebbtide.kube.backoff import doubled


@pytest.mark.parametrize(
    ("first", "n", "most", "pause"),
    [
        pytest.param(5.0, 0, 60.0, 5.0, id="the first"),
        pytest.param(5.0, 1, 60.0, 10.0, id="the second"),
        pytest.param(5.0, 3, 60.0, 40.0, id="the last below the longest"),
        pytest.param(5.0, 4, 60.0, 60.0, id="the longest"),
        pytest.param(5.0, 1024, 60.0, 60.0, id="where a float ends"),
        pytest.param(5.0, 5000, 60.0, 60.0, id="a row of failures that lasts for days"),
        pytest.param(90.0, 0, 60.0, 60.0, id="never longer than the longest"),
        pytest.param(0.0, 5000, 60.0, 0.0, id="nothing stays nothing"),
    ],
)
def test_pauses_double_up_to_the_longest_however_often(first: float, n: int, most: float, pause: float) -> None:
    assert doubled(first, n, most) == pause
