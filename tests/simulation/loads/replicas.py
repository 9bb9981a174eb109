"""What happens to the API server and to replicas: faults of every kind, and processes that die, stop and are cut off.

Each method returns what happened in words, "" when there is no place for it now.
"""

from functools import partial
from typing import Final

from ebbtide.sim.faults import Answer, Compact, CutWatch, Delay, Drop, Effect, RepeatEvents, When
from ebbtide.sim.loaders.floor import PORT
from tests.simulation.loads.course import Course
from tests.simulation.loads.imports import runs
from tests.simulation.stage import Replica
from tests.simulation.wiretap import Request

_OURS: Final = "ebbtide-reconciler/*"
_EFFECTS: Final[tuple[tuple[Effect, When], ...]] = (
    (Answer(409, "Conflict"), When("PATCH", user_agent=_OURS, probability=0.5)),
    (Answer(409, "AlreadyExists"), When("POST", "*/tidb-serverless/*", user_agent=_OURS, probability=0.5)),
    (Answer(410, "Expired"), When("WATCH", user_agent=_OURS, probability=0.5)),
    (Answer(410, "Expired"), When("GET", user_agent=_OURS, probability=0.3)),
    (Answer(429, "TooManyRequests", retry_after=2), When(user_agent=_OURS, probability=0.5)),
    (Answer(500, "InternalError"), When(user_agent=_OURS, probability=0.5)),
    (Answer(503, "ServiceUnavailable"), When(user_agent=_OURS)),
    (Answer(504, "Timeout"), When("PATCH", user_agent=_OURS, probability=0.5)),
    (Drop(), When(user_agent=_OURS, probability=0.3)),
    (Drop(processed=True), When("PATCH", user_agent=_OURS, probability=0.5)),
    (Drop(processed=True), When("POST", user_agent=_OURS, probability=0.5)),
    (Drop(processed=True), When("DELETE", user_agent=_OURS)),
    (Delay(before=1.0, after=1.0, jitter=8.0), When(user_agent=_OURS, probability=0.5)),
    (CutWatch(after_events=1), When("WATCH", user_agent=_OURS)),
    (RepeatEvents(probability=0.5, count=None), When("WATCH", user_agent=_OURS)),
    (Compact(), When("WATCH", user_agent=_OURS)),
)


class Replicas:
    """Those that run, and the server that they speak to."""

    def __init__(self, course: Course) -> None:
        self._course = course

    def fault(self) -> str:
        effect, when = self._course.rng.choice(_EFFECTS)
        seconds = self._course.rng.choice([1.0, 5.0, 15.0, 30.0])
        injection = self._course.stage.faults.inject(effect, when)
        self._course.after(seconds, partial(self._course.stage.faults.remove, injection))
        return f"{effect} for {when} for {seconds:.0f} s"

    def start(self, name: str) -> str:
        replica = self._course.stage.start(name, skew=self._course.rng.choice([0.0, 0.0, -20.0, 20.0]))
        replica.task.add_done_callback(lambda _: self._over(replica))
        return f"start of {name}"

    def _over(self, replica: Replica) -> None:
        """Where a process has ended nobody listens, until the next one does."""
        if not replica.killed:
            self._course.stage.network.leave(replica.name, PORT)

    def running(self) -> list[Replica]:
        return [replica for replica in self._course.stage.replicas if runs(replica) and not replica.stopping.is_set()]

    def trouble(self) -> str:
        running = self.running()
        if not running:
            return ""
        leaders = [replica for replica in running if replica.leads]
        replica = self._course.rng.choice(leaders if leaders and self._course.rng.random() < 0.6 else running)
        match self._course.rng.choice(["kill", "kill", "die", "stop", "cut off", "cut off", "reset", "jump"]):
            case "kill":
                return self._kill_at_a_write(replica)
            case "die":
                replica.kill()
                self._again_later(f"{replica.name}x")
                return f"the machine of {replica.name} dies"
            case "stop":
                replica.stopping.set()
                self._again_later(f"{replica.name}y")
                return f"SIGTERM for {replica.name}"
            case "cut off":
                return self._cut_off(replica)
            case "reset":
                replica.tap.wire.reset()
                return f"all connections of {replica.name} to the server break"
            case _:
                replica.clock.jump(seconds := self._course.rng.choice([-30, -1, 1, 30]))
                return f"the clock of {replica.name} jumps by {seconds} s"

    def _kill_at_a_write(self, replica: Replica) -> str:
        """Its next process is at the same address."""
        left, answered = [self._course.rng.randrange(4)], self._course.rng.random() < 0.5

        def count(request: Request) -> None:
            if request.who == replica.name and request.writes and runs(replica):
                left[0] -= 1
                if left[0] < 0:
                    self._course.note(f"kill -9 of {replica.name} at {request.method} {request.path}")
                    replica.kill()
                    self._again_later(replica.name)

        path = self._course.rng.choice(["*", "*/tidb-serverless/*", "*/tidb-serverless/*"])
        for method in ("PATCH", "POST", "PUT", "DELETE"):
            self._course.stage.on(method, path, count, answered=answered, times=None)
        return f"{replica.name} will be killed {'after' if answered else 'before'} write {left[0]} to {path}"

    def _cut_off(self, replica: Replica) -> str:
        """Nothing of it gets to the server for a while, but what is on its way; its front goes on answering."""
        seconds = self._course.rng.choice([3.0, 15.0, 40.0])
        replica.tap.wire.refusing = True

        def heal() -> None:
            replica.tap.wire.refusing = replica.killed

        self._course.after(seconds, heal)
        return f"{replica.name} is cut off from the server for {seconds:.0f} s"

    def _again_later(self, name: str) -> None:
        seconds = self._course.rng.choice([0.0, 1.0, 10.0])
        self._course.after(seconds, lambda: self._course.note(self.start(name)))
