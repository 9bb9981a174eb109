"""What a look at the certificates asks, and what it is answered: plain values, which can go to another process."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from certs.seen import Replica
from certs.spec import Spec

# How often the wall clock is asked whether something is due.
LOOK_EVERY: Final = 60.0


class Step(StrEnum):
    """What is to be done to the Secret."""

    NOTHING = "nothing"
    REFUSE = "refuse"
    CREATE = "create"
    ISSUE_LEAF = "issue-leaf"
    REPAIR = "repair"
    BEGIN = "begin-rotation"
    RECOVER = "recover"
    CONFIRM = "confirm-published"
    SWITCH = "switch"
    RETIRE = "retire"


WAITS: Final = frozenset({Step.NOTHING, Step.REFUSE})


@dataclass(frozen=True, slots=True)
class Question:
    """What is there at `now` (epoch seconds), and what is to become of it.

    `secret` is the Secret `name` as it was read, None without one; `bundles` are the caBundles of all entries;
    `replicas` is None as long as they were not asked. `injected_at` is when a caBundle was last found to lack something
    and was written. In a dry run nothing is made.
    """

    name: str
    secret: dict[str, Any] | None = field(repr=False)
    bundles: tuple[bytes, ...]
    replicas: tuple[Replica, ...] | None
    injected_at: float | None
    spec: Spec
    now: float
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The next step, and why.

    `again` is the seconds until the next look, at the latest. Before `until` (epoch seconds) time alone changes nothing
    of the answer. Where `replicas_matter`, an answer without them is none. `body` is the Secret to store, None where
    nothing is to be; `bundle` is what is to be published of the Secret that was read. `leaf_ends` and `authority_ends`
    say until when that one's leaf, and its last CA, are valid.
    """

    step: Step
    why: str
    again: float
    until: float
    replicas_matter: bool
    body: dict[str, Any] | None = field(repr=False)
    bundle: bytes
    leaf_ends: float | None
    authority_ends: float | None
