"""Ids of tasks and their beginnings, as the other side of the protocol reads them."""

import pytest

from ebbtide.sim.loaders.tasks import TaskNumber, numbers


@pytest.mark.parametrize("text", ["1-170-139-0", "1-170-139--1", "4294967295--5-7-3"])
def test_an_id_is_written_as_it_was_read(text: str) -> None:
    assert str(TaskNumber.parse(text)) == text


@pytest.mark.parametrize("text", ["", "1-2-3", "1-2-3-4-5", "a-2-3-4", "1-2-3-", "1--2-3", "1-2-3-4x", "1 -2-3-4"])
def test_anything_else_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        TaskNumber.parse(text)


def test_a_beginning_may_end_with_a_dash() -> None:
    """Whole numbers only: keyspace 1 is not the beginning of keyspace 10."""
    assert numbers("1-170-") == numbers("1-170") == (1, 170)
    assert TaskNumber.parse("10-170-1-0")[:1] != numbers("1")
