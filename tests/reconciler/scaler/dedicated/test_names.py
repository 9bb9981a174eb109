"""Names of workers: the full id where there is room, else a hash of it."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.scaler.dedicated.names import LONGEST, set_name
from reconciler.scaler.task import TaskId

PREFIX = "load-data-worker"
# DNS-1035, which is what a Service's name has to be.
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
TASKS = st.builds(
    TaskId,
    st.integers(0, 2**32 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
)
PREFIXES = st.from_regex(LABEL, fullmatch=True).filter(lambda name: len(name) <= 63)


@pytest.mark.parametrize(
    ("task", "length"), [("1-1701753296955293956-139-0", 44), ("16777215-1701753296955293956-139--1", 52)]
)
def test_ws_15_an_id_that_fits_is_the_end_of_the_name(task: str, length: int) -> None:
    name = set_name(PREFIX, TaskId.parse(task))
    assert name == f"{PREFIX}-{task}"
    assert len(name) == length


def test_ws_15_longer_names_are_short_different_and_always_the_same() -> None:
    names = [
        set_name(PREFIX, TaskId.parse(f"4294967295-1701753296955293956-{table}--1"))
        for table in ("281474976710655", "281474976710654")
    ]
    assert names == [
        "load-data-worker-hab745a950fd45f24d67c",
        "load-data-worker-h8e517eff5644ee2029cf",
    ]


@given(PREFIXES, TASKS)
@example("a", TaskId(4294967295, -(2**63), -(2**63), -(2**31)))
def test_every_name_can_be_that_of_a_set_and_of_a_service(prefix: str, task: TaskId) -> None:
    name = set_name(prefix, task)
    assert len(name) <= LONGEST
    assert LABEL.fullmatch(name)


@given(PREFIXES, TASKS, TASKS)
def test_two_tasks_never_share_a_name(prefix: str, one: TaskId, other: TaskId) -> None:
    assert (set_name(prefix, one) == set_name(prefix, other)) is (one == other)
