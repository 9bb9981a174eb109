"""What an operator is told, who else writes the size, and what only a deletion can help."""

from dataclasses import replace

import pytest

from ebbtide import vocabulary
from reconciler.scaler.pods import WorkerClaim, WorkerPod, WorkerSet
from reconciler.scaler.shared.conditions import Around, Reason, conditions
from reconciler.scaler.shared.describe import describe, doing
from reconciler.scaler.shared.facts import OVERDUE, PodState, Pool, PoolPod
from reconciler.scaler.shared.repair import HANGING_AFTER, Patience, Replacement, Seen, Why, orphans, replacements
from reconciler.scaler.shared.shrink import shrink
from reconciler.scaler.shared.writers import FIRST_PAUSE, LONGEST_PAUSE, REMEMBERED, Writers
from tests.reconciler.scaler.shared.builders import DEFAULTS, LONG, idle, missing, pod, pool, starting, unknown

CASES: dict[str, tuple[Pool, Around, set[Reason]]] = {
    "all is well": (pool(3, idle()), Around(), set()),
    "no node for a pod": (pool(3, starting()), Around(unschedulable=((1, "0/3 nodes"),)), {Reason.NO_CAPACITY}),
    "tasks wait at the maximum": (
        pool(*(24 for _ in range(64)), waiting=1),
        Around(),
        {Reason.NO_CAPACITY},
    ),
    "tasks wait for growth": (pool(24, waiting=1), Around(), set()),
    "WS-60 a volume in a blocked zone": (
        pool(pod(1, state=PodState.BLOCKED)),
        Around(tied=(0,)),
        {Reason.ZONAL_VOLUME_BLOCKED},
    ),
    "WS-65 a pod that is not made": (
        pool(3, missing(OVERDUE)),
        Around(),
        {Reason.QUOTA_EXCEEDED},
    ),
    "a pod that is only late": (pool(20, missing(OVERDUE - 1)), Around(), set()),
    "WS-64 a tail that never ran": (pool(idle(), starting(LONG)), Around(), {Reason.TAIL_STUCK}),
    "a tail that has only begun": (pool(idle(), starting(10)), Around(), set()),
    "a tail that is needed": (pool(20, starting(LONG)), Around(), set()),
    "WS-29 a pod that says nothing": (pool(unknown(2)), Around(unread=((0, "timeout"),)), {Reason.STATUS_UNKNOWN}),
    "WS-70 a rival": (pool(3), Around(rival=2), {Reason.CONFLICTING_WRITER}),
    "WS-80 other volumes": (pool(3), Around(claims_pending=True), {Reason.CLAIM_SIZE_PENDING}),
    "WS-18 a template": (pool(), Around(template="template t has no env"), {Reason.TEMPLATE_UNUSABLE}),
    "somebody else's set": (pool(), Around(name="not ours"), {Reason.NAME_TAKEN}),
    "WS-69 paused": (pool(3, paused=True), Around(), {Reason.PAUSED}),
}


@pytest.mark.parametrize(("state", "around", "reasons"), CASES.values(), ids=CASES.keys())
def test_the_conditions_that_hold(state: Pool, around: Around, reasons: set[Reason]) -> None:
    found = conditions(state, shrink(state, DEFAULTS), DEFAULTS, around)
    assert {condition.reason for condition in found} == reasons
    assert all(condition.note for condition in found)


def test_ws_65_why_a_pod_is_not_made_is_told_in_the_words_of_the_server() -> None:
    state = replace(pool(3, missing(OVERDUE), missing(OVERDUE)), refused="pods is forbidden: exceeded quota: few")
    [found] = conditions(state, shrink(state, DEFAULTS), DEFAULTS, Around())
    assert found.note == "pods 1, 2 cannot be created: pods is forbidden: exceeded quota: few"


def test_a_stuck_tail_that_will_go_by_itself_is_no_condition() -> None:
    rules = replace(DEFAULTS, stuck_for=1800)
    state = pool(idle(), starting(LONG))
    assert conditions(state, shrink(state, rules), rules, Around()) == ()


def test_the_state_document_tells_each_pod() -> None:
    found = describe(pool(3, idle(12.34), waiting=1), DEFAULTS, ())
    assert found["replicas"] == 2
    assert found["desired"] == 1
    assert found["usable"] == 2
    assert found["waiting"] == 1
    assert found["pods"][1] == {
        "ordinal": 1,
        "state": "usable",
        "running": 0,
        "ended": 0,
        "reserved": 0,
        "idleSeconds": 12.3,
    }


@pytest.mark.parametrize(
    ("each", "word"),
    [
        (pod(3), "busy"),
        (pod(reserved=1), "ready"),
        (idle(), "idle"),
        (starting(), "starting"),
        (unknown(3), "unknown"),
        (pod(state=PodState.ENDING, good=False), "ending"),
        (pod(3, state=PodState.LOST, good=False), "unknown"),
        (pod(3, state=PodState.BLOCKED), "busy"),
        (idle(state=PodState.CORDONED), "idle"),
    ],
)
def test_what_a_pod_is_doing(each: PoolPod, word: str) -> None:
    assert doing(each) == word


# --- who else writes ------------------------------------------------------------------------------------------------


def test_own_writes_and_what_was_there_at_first_are_nobody_elses() -> None:
    writers = Writers()
    assert not writers.observed(3, 0)
    writers.writing(3, 5)
    assert not writers.observed(5, 1)
    writers.writing(5, 7)
    # The outcome is not known: either is ours.
    assert not writers.observed(5, 2)


def test_a_person_is_put_right_at_once_and_a_rival_more_and_more_slowly() -> None:
    writers, now = Writers(), 0.0
    writers.observed(4, now)
    pauses = []
    for _ in range(8):
        now += 100
        assert writers.observed(2, now)
        writers.writing(2, 4)
        writers.written(now)
        writers.observed(4, now)
        pauses.append(writers.pause(now))
    assert pauses[:3] == [0, FIRST_PAUSE, 2 * FIRST_PAUSE]
    assert max(pauses) == LONGEST_PAUSE
    writers.observed(4, now + REMEMBERED)
    assert not writers.conflicting


# --- what only a deletion can help ----------------------------------------------------------------------------------


def worker(ordinal: int = 1, **special: object) -> WorkerPod:
    plain = WorkerPod(
        namespace="n",
        name=f"ldw-shared-{ordinal}",
        uid=f"uid-{ordinal}",
        resource_version=1,
        created=0,
        set_name="ldw-shared",
        set_uid="set",
        ordinal=ordinal,
        revision="old",
        pool="shared",
        busy=False,
        node="a1",
        ip="10.0.0.1",
        phase="Running",
        ready_since=1,
        deleting=False,
        started="s",
        ever_ran=True,
        unschedulable="",
        claims=("data", "worker0"),
    )
    return replace(plain, **special)  # type: ignore[arg-type] # the fields' types are checked where they are used


def the_set(**special: object) -> WorkerSet:
    plain = WorkerSet("n", "ldw-shared", "set", 1, 0, 1, 3, "shared", {}, False, "ldw-shared", "new", "Delete")
    return replace(plain, **special)  # type: ignore[arg-type] # as above


PENDING = worker(node="", phase="Pending", ready_since=None, started="", ip="")
REPLACED: dict[str, tuple[Seen, Replacement | None]] = {
    "WS-60 empty and tied": (
        Seen(worker(), idle(0, state=PodState.BLOCKED), True, ()),
        Replacement(worker(), Why.TIED, ask=True, claims=("data", "worker0")),
    ),
    "WS-60 tied with a task": (Seen(worker(), pod(1, state=PodState.BLOCKED), True, ()), None),
    "WS-60 tied with a promise": (Seen(worker(), pod(reserved=1, state=PodState.BLOCKED), True, ()), None),
    "tied and silent": (Seen(worker(), unknown(), True, ()), None),
    "tied and without a node": (
        Seen(PENDING, pod(state=PodState.BLOCKED, good=False), True, ()),
        Replacement(PENDING, Why.TIED, claims=("data", "worker0")),
    ),
    "WS-82 of an old template": (Seen(PENDING, starting(), False, ()), Replacement(PENDING, Why.OLD)),
    "WS-82 of an old template, and good": (Seen(worker(), idle(), False, ()), None),
    "WS-82 of an old template, with a promise": (Seen(PENDING, starting(reserved=1), False, ()), None),
    "of the new template": (Seen(replace(PENDING, revision="new"), starting(), False, ()), None),
    "WS-62 without its claim": (
        Seen(replace(PENDING, revision="new"), starting(HANGING_AFTER), False, ("data",)),
        Replacement(replace(PENDING, revision="new"), Why.HANGING),
    ),
    "WS-62 not for so long": (
        Seen(replace(PENDING, revision="new"), starting(HANGING_AFTER - 1), False, ("data",)),
        None,
    ),
    "on its way out": (Seen(replace(PENDING, deleting=True), starting(), False, ()), None),
}


@pytest.mark.parametrize(("seen", "replacement"), REPLACED.values(), ids=REPLACED.keys())
def test_only_pods_without_load_are_replaced(seen: Seen, replacement: Replacement | None) -> None:
    assert replacements(the_set(), [seen]) == (() if replacement is None else (replacement,))


def test_nothing_is_old_before_the_set_has_a_revision() -> None:
    assert replacements(the_set(revision=""), [Seen(PENDING, starting(), False, ())]) == ()


def claim(name: str, **special: object) -> WorkerClaim:
    labels = {vocabulary.POOL_LABEL: "shared"}
    plain = WorkerClaim("n", name, f"uid-{name}", 1, 0, labels, "volume", False)
    return replace(plain, **special)  # type: ignore[arg-type] # as above


def test_ws_63_only_claims_of_ordinals_that_are_gone_are_orphans() -> None:
    claims = [
        claim("worker0-ldw-shared-2"),
        claim("worker0-ldw-shared-3"),
        claim("worker0-ldw-shared-4"),
        claim("worker0-ldw-shared-5", labels={}),
        claim("worker0-ldw-shared-6", deleting=True),
        claim("worker0-other-7"),
    ]
    kept = the_set(when_scaled="Retain")
    assert orphans(claims, {4: worker(4)}, kept, "ldw-shared") == ["n/worker0-ldw-shared-3"]
    assert orphans(claims, {}, the_set(), "ldw-shared") == []
    assert len(orphans(claims, {}, None, "ldw-shared")) == 3


def test_patience_asks_for_two_looks_and_the_time_between() -> None:
    patience: Patience[str] = Patience(60)
    assert patience.ripe(["a"], 0) == []
    assert patience.ripe(["a", "b"], 59) == []
    assert patience.ripe(["a", "b"], 60) == ["a"]
    assert patience.ripe([], 70) == []
    assert patience.ripe(["a"], 1000) == []
