"""Where a new task is to run: the one table, from its size, the settings, and the load of the local pods. Pure.

    size                  pool off                                        pool on
    above max-size        refused                                         refused
    above spawn-data-size dedicated                                       dedicated
    smaller               local, dedicated while local pods are too busy  shared
    0 or not said         local                                           shared

A task that has a place already is no question for this table: it stays there, whatever it says now.
"""

from dataclasses import dataclass
from typing import Self

from ebbtide.config.scaler import WorkerScaler
from ebbtide.counting import count
from reconciler.scaler.contract import Target


@dataclass(frozen=True, slots=True)
class Rules:
    """Sizes in bytes; `running` is how many tasks the least busy local pod may have and still be given a small one."""

    max_size: int = 1 << 40
    spawn_size: int = 2 << 30
    running: int = 8
    pool: bool = False

    @classmethod
    def of(cls, settings: WorkerScaler) -> Self:
        return cls(
            max_size=settings.max_size,
            spawn_size=settings.spawn_data_size,
            running=settings.spawn_running_tasks,
            pool=settings.shared_pool_enabled,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """`target` is None for a task that is too large; `reason` says why, in words."""

    target: Target | None
    reason: str


def decide(size: int, running: int | None, rules: Rules) -> Verdict:
    """The place for a task of that many bytes.

    `running` are the tasks of the least busy local pod, those promised to it included; None when no local pod can be
    asked, which makes none of them busy.
    """
    if size > rules.max_size:
        return Verdict(None, f"data size {size} exceeds max data size {rules.max_size}")
    if size > rules.spawn_size:
        return Verdict(Target.DEDICATED, f"data size {size} is above spawn-data-size {rules.spawn_size}")
    if rules.pool:
        return Verdict(Target.SHARED, "small tasks go to the shared pool")
    if size and running is not None and running > rules.running:
        return Verdict(
            Target.DEDICATED, f"the least busy local pod runs {count(running, 'task')}, more than {rules.running}"
        )
    if not size:
        return Verdict(Target.LOCAL, "its size is not known")
    return Verdict(Target.LOCAL, "it is small, and the shared pool is switched off")
