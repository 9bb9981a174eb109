"""Workers, the pool and tasks in the picture of `ebbtide status`."""

from dataclasses import replace
from io import StringIO
from typing import Any, Final

import pytest
from rich.console import Console, Group

from ebbtide.cli.workers import of_task, workers
from reconciler.scaler.describe import WorkersNow
from tests.reconciler.scaler.workers_now import POOL, WORKERS, worker

WIDTHS: Final = (60, 100, 200)


def lines(found: dict[str, Any] | None, width: int = 200) -> list[str]:
    console = Console(file=StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(Group(*workers(found, width)))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()]


def words(found: dict[str, Any] | None) -> list[str]:
    """Lines without the spaces between their columns."""
    return [" ".join(line.split()) for line in lines(found)]


def test_everything_at_once() -> None:
    """Counts first, then workers (those with a trouble first), then the pool and what is wrong with it."""
    assert words(WORKERS.document()) == [
        "workers: 2 dedicated, shared pool of 3 (2 usable, 1 wanted); tasks: 1 waiting, 1 running, 1 ended",
        "WORKER STATE DATA WHY",
        "load-data-worker-1-170-139--1 starting 12.0 GiB NoCapacity: its pod is not ready yet",
        "load-data-worker-1-170-139-0 busy 3.0 GiB it runs a task",
        "TailStuck: ordinal 2 has never run",
        "POD STATE RUNNING ENDED PROMISED IDLE",
        "0 usable 3 - 1 -",
        "1 usable - 2 - 42 s",
        "2 starting - - - -",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Long names are folded."""
    assert all(len(line) <= width for line in lines(WORKERS.document(), width))


def test_nothing_is_said_where_the_scaler_is_switched_off() -> None:
    """Also for a document of a version without workers."""
    assert lines(WorkersNow().document()) == []
    assert lines(None) == []


def test_only_a_leader_knows() -> None:
    assert lines(WorkersNow(run=True).document()) == ["workers: only the leader knows them"]


def test_a_new_leader_says_what_it_has_not_read_yet() -> None:
    told = lines(replace(WORKERS, unread="tasks of tikv-api-0 have not been read yet").document())
    assert "tikv-api-0" in told[1]


def test_a_thousand_workers_are_not_all_listed() -> None:
    """Those with a trouble are."""
    seen = [replace(WORKERS.dedicated[0], worker=worker(number, 1 << 30)) for number in range(1000)]
    told = lines(replace(WORKERS, dedicated=(*seen, WORKERS.dedicated[1])).document())
    assert "NoCapacity" in told[2]
    assert any("981 more" in line for line in told)


def test_a_pool_at_rest_is_one_word() -> None:
    """At zero, with nothing wrong, it has no table."""
    shared = {**WORKERS.document()["shared"], "replicas": 0, "pods": [], "conditions": []}
    told = lines({**WorkersNow(run=True, known=True).document(), "shared": shared})
    assert len(told) == 1
    assert "tasks: none" in told[0]


def test_a_paused_pool_says_so() -> None:
    shared = {**WORKERS.document()["shared"], "paused": not POOL.paused}
    assert any("paused" in line for line in lines({**WORKERS.document(), "shared": shared}))


def test_a_task_in_words() -> None:
    """Size, place, trouble, what was reported, and the worker that it would get."""
    facts = {
        "task": {"id": "1-170-139-0", "cluster": 7, "dataSize": 3 << 30},
        "place": {"pool": "dedicated", "worker": None},
        "worker": {"trouble": "NoCapacity"},
        "reported": {"finished": False, "error": "", "totalKvs": 12},
        "would": {"size": {"limits": {"cpu": "2", "memory": "8Gi"}, "workers": 1, "storageGb": 20}},
    }
    assert dict(of_task(facts)) == {
        "data size": "3.0 GiB, of cluster 7",
        "place": "dedicated, pod none yet",
        "trouble": "NoCapacity",
        "reported": "totalKvs 12",
        "its worker": "2 cores and 8Gi at most, 1 worker with 20 GiB each",
    }


def test_facts_about_something_else_say_nothing_of_tasks() -> None:
    assert not dict(of_task({"nodes": [], "pod": {"phase": "Running"}}))
