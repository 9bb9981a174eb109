"""What is told of a history when it has been played."""

import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import orjson
from structlog.testing import capture_logs

from ebbtide.sim.time import simulate
from tests.simulation.wiretap import EVENT_PATH, Request


@dataclass
class Account:
    """What became of a history `of` nodes, or of loads. `met` counts what it has led to, by name."""

    seed: int
    of: str = "nodes"
    diary: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    writes: list[tuple[Any, ...]] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)


def played(account: Account, play: Callable[[Account], Coroutine[Any, Any, None]]) -> Account:
    """Plays a history on simulated time, with its seed for all chance; errors that are raised or logged break it."""
    state = random.getstate()
    random.seed(account.seed)
    with capture_logs() as logs:
        try:
            simulate(play(account), limit=7200.0)
        except Exception as error:  # a history that cannot be played is a failing one, and must name its seed as well
            account.broken.append(f"{type(error).__name__}: {error}")
        finally:
            random.setstate(state)
    account.broken += [f"logged: {entry}" for entry in logs if entry["log_level"] in ("error", "critical")]
    return account


def canonical(request: Request) -> tuple[Any, ...]:
    """A write as it has to come out again when the history is played once more; names of Events are chance."""
    body: Any = request.document if request.body else None
    if request.matches("POST", EVENT_PATH):
        body["metadata"].pop("name")
    return request.time, request.who, request.method, request.path, orjson.dumps(body), request.status
