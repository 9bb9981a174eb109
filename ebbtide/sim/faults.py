"""What can go wrong between a client and its server, on order.

A fault applies to the requests that its `When` describes: from the n-th that matches on, so many times, with a
probability drawn from the cluster's seed. Several faults may hit the same request; they act in the order in which they
were injected.

    cluster.faults.inject(Answer(429, retry_after=3), When(method="PATCH", path="/api/v1/nodes/*", times=2))
    cluster.faults.inject(CutWatch(after_events=5), When(method="WATCH", path="/api/v1/nodes"))
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import Random
from typing import Final

WATCH: Final = "WATCH"


@dataclass(frozen=True, slots=True)
class When:
    """Which requests. `method` is that of HTTP, or `WATCH` for a watch (no `GET` then), `*` is any.

    `path` and `user_agent` are shell patterns (`*` also spans slashes). The first `skip` matches pass unharmed, the
    next `times` are hit (None: all), each with `probability`.
    """

    method: str = "*"
    path: str = "*"
    user_agent: str = "*"
    skip: int = 0
    times: int | None = None
    probability: float = 1.0


ALWAYS: Final = When()


@dataclass(frozen=True, slots=True)
class Answer:
    """The server answers this instead of doing anything. `retry_after` is in seconds, None for no such header."""

    code: int
    reason: str = ""
    message: str = "injected"
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is slow: `before` seconds until it is processed, `after` until its answer goes out."""

    before: float = 0.0
    after: float = 0.0
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection breaks: before the request is processed, or once it is (the answer is lost)."""

    processed: bool = False


@dataclass(frozen=True, slots=True)
class Compact:
    """The history is compacted when such a request comes, before it is processed."""


@dataclass(frozen=True, slots=True)
class CutWatch:
    """The stream breaks after so many events; `cleanly` ends it as if its time were over."""

    after_events: int = 0
    cleanly: bool = False


@dataclass(frozen=True, slots=True)
class FreezeWatch:
    """The stream stays open and says nothing more after so many events, not even bookmarks."""

    after_events: int = 0


@dataclass(frozen=True, slots=True)
class LoseEvents:
    """Events never arrive: `count` of them after `skip`, or any with `probability`."""

    skip: int = 0
    count: int | None = 1
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class RepeatEvents:
    """Events arrive twice: `count` of them after `skip`, or any with `probability`."""

    skip: int = 0
    count: int | None = 1
    probability: float = 1.0


Effect = Answer | Delay | Drop | Compact | CutWatch | FreezeWatch | LoseEvents | RepeatEvents


@dataclass(slots=True, eq=False)
class Injection:
    """A fault that has been ordered. `hits` counts the requests it was done to."""

    effect: Effect
    when: When
    seen: int = 0
    hits: int = 0


@dataclass(slots=True)
class Stream:
    """The state of one watch under faults."""

    effects: list[Effect]
    random: Random
    events: int = 0
    spent: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> "CutWatch | FreezeWatch | None":
        """How the stream ends now that so many events have gone over it, None while it goes on."""
        for effect in self.effects:
            if isinstance(effect, CutWatch | FreezeWatch) and self.events >= effect.after_events:
                return effect
        return None

    def copies(self) -> int:
        """How often the next event is sent: once, twice, or not at all."""
        copies = 1
        for number, effect in enumerate(self.effects):
            if isinstance(effect, LoseEvents) and self._strikes(number, effect):
                copies = 0
            if isinstance(effect, RepeatEvents) and self._strikes(number, effect):
                copies *= 2
        self.events += 1
        return copies

    def _strikes(self, number: int, effect: LoseEvents | RepeatEvents) -> bool:
        if self.events < effect.skip or (effect.count is not None and self.spent.get(number, 0) >= effect.count):
            return False
        if effect.probability < 1.0 and self.random.random() >= effect.probability:
            return False
        self.spent[number] = self.spent.get(number, 0) + 1
        return True


class Faults:
    """All faults of one cluster."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)  # noqa: S311 - reproducible on purpose
        self._injections: list[Injection] = []
        self._open: dict[Callable[[], None], str] = {}

    def inject(self, effect: Effect, when: When = ALWAYS) -> Injection:
        """Orders a fault, after those already ordered."""
        injection = Injection(effect, when)
        self._injections.append(injection)
        return injection

    def remove(self, injection: Injection) -> None:
        """Takes a fault back; one that is not there any more is no matter."""
        if injection in self._injections:
            self._injections.remove(injection)

    def clear(self) -> None:
        self._injections.clear()

    def strike(self, method: str, path: str, user_agent: str) -> list[Effect]:
        """What is done to this request."""
        return [injection.effect for injection in self._injections if self._hits(injection, method, path, user_agent)]

    def stream(self, effects: list[Effect]) -> Stream | None:
        """The state of a watch that these effects are done to, None when none of them concerns a stream."""
        kept = [effect for effect in effects if isinstance(effect, CutWatch | FreezeWatch | LoseEvents | RepeatEvents)]
        return Stream(list(kept), self._random) if kept else None

    async def delay(self, seconds: float, effect: Delay) -> None:
        """Waits, on the loop's time."""
        if seconds or effect.jitter:
            await asyncio.sleep(seconds + self._random.random() * effect.jitter)

    # --- what is done to streams that run already ------------------------------------------------------------

    def opened(self, path: str, break_off: Callable[[], None]) -> None:
        """The server says that a watch of that path has begun."""
        self._open[break_off] = path

    def closed(self, break_off: Callable[[], None]) -> None:
        self._open.pop(break_off, None)

    def cut_watches(self, path: str = "*") -> int:
        """Breaks the running watches whose path matches, returns how many."""
        matching = [break_off for break_off, open_path in self._open.items() if fnmatchcase(open_path, path)]
        for break_off in matching:
            break_off()
        return len(matching)

    def _hits(self, injection: Injection, method: str, path: str, user_agent: str) -> bool:
        when = injection.when
        if when.method not in {"*", method} or not fnmatchcase(path, when.path):
            return False
        if not fnmatchcase(user_agent, when.user_agent):
            return False
        injection.seen += 1
        if injection.seen <= when.skip or (when.times is not None and injection.hits >= when.times):
            return False
        if when.probability < 1.0 and self._random.random() >= when.probability:
            return False
        injection.hits += 1
        return True
