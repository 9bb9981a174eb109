"""The pages on status and explain name every key, state and source that there is."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebbtide.kube.lease_record import Record
from ebbtide.kube.resources import PODS
from reconciler.engine.events import Event, Regarding, Told
from reconciler.rebalance.signal import Source
from reconciler.state import NOTHING_KNOWN, document
from reconciler.state import Source as StateSource
from tests.reconciler.explain.cases import NODES, STANDING, WAITING
from tests.reconciler.rebalance.builders import DEFAULTS, NOW, node
from tests.reconciler.scaler.workers_now import WORKERS

DOCS = Path(__file__).resolve().parents[2] / "docs"
STATUS, EXPLAIN = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("status", "explain"))


def keys(value: Any) -> Iterator[str]:
    """Every key of a document, the names of groups left out."""
    for each in value if isinstance(value, list) else ():
        yield from keys(each)
    for key, each in value.items() if isinstance(value, dict) else ():
        yield key
        if key != "blockedZones":
            yield from keys(each)


def test_every_key_of_the_state_is_described() -> None:
    leader = Record("one", 15.0, NOW, NOW, 1, {})
    event = Event(Regarding(PODS, "p", "uid-p", "db"), "Normal", "ZoneBlocked", "Taint", "Why.")
    known = replace(NOTHING_KNOWN, workers=WORKERS, decisions=(Told(NOW, event),))
    told = document([node("a1", signal=400, prevent=True)], leader, known, DEFAULTS, NOW)
    rows = "\n".join(line for line in STATUS.splitlines() if line.startswith("|"))
    described = {name for words in re.findall(r"`([^`]+)`", rows) for name in re.split(r"[.\[\]]+", words)}
    assert set(keys(told)) <= described


def test_every_source_is_described() -> None:
    assert all(f"`{source}`" in STATUS for source in (*Source, *StateSource))


def test_every_state_of_a_pod_is_described() -> None:
    states = {case.state for case in (*STANDING, *WAITING)}
    assert all(f"\n| `{state}` |" in EXPLAIN for state in states)
    assert "outside" in {case.state for case in NODES}
    assert "`outside`" in EXPLAIN
