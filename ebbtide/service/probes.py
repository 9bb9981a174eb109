"""What `/healthz` and `/readyz` answer, and why.

Liveness asks whether this process can still do its job by itself: it fails only for what a restart cures (a part that
died, a part that is stuck). Readiness asks whether it can do its job now; a cluster that is away makes it not ready,
never dead, since a restart would not bring the cluster back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

# None when all is well, otherwise the reason in words.
Check = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of all checks of one kind: `reasons` by the name of each check that failed."""

    reasons: Mapping[str, str]

    @property
    def good(self) -> bool:
        return not self.reasons

    def text(self) -> str:
        """One line per reason, `ok` without any."""
        return "\n".join(f"{name}: {reason}" for name, reason in sorted(self.reasons.items())) or "ok"


class Health:
    """Named checks, asked whenever somebody wants to know. A check must be quick and must not raise."""

    def __init__(self) -> None:
        self._alive: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._dead: dict[str, str] = {}

    def alive_while(self, name: str, check: Check) -> None:
        """Adds a liveness check. Raises ValueError for a name that is taken."""
        _add(self._alive, name, check)

    def ready_while(self, name: str, check: Check) -> None:
        """Adds a readiness check. Raises ValueError for a name that is taken."""
        _add(self._ready, name, check)

    def died(self, name: str, reason: str) -> None:
        """A part has died: the process is not alive from now on, whatever its checks say."""
        self._dead[name] = reason

    def liveness(self) -> Report:
        return Report({**_failing(self._alive), **self._dead})

    def readiness(self) -> Report:
        """Not ready either while not alive."""
        return Report({**_failing(self._ready), **self.liveness().reasons})


def not_longer_than(seconds: float, measure: Callable[[], float], what: str) -> Check:
    """A check that fails when `measure` exceeds `seconds`: for the age of a heartbeat, or of work under way."""

    def check() -> str | None:
        measured = measure()
        return None if measured <= seconds else f"{what} for {measured:.0f} s (at most {seconds:.0f} s)"

    return check


def _add(checks: dict[str, Check], name: str, check: Check) -> None:
    if name in checks:
        raise ValueError(f"there is a check named {name!r} already")
    checks[name] = check


def _failing(checks: Mapping[str, Check]) -> dict[str, str]:
    outcomes = {name: check() for name, check in checks.items()}
    return {name: reason for name, reason in outcomes.items() if reason is not None}
