"""What people are told: the object, why, and what to do, in a sentence that fits into an event."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from ebbtide.model import Cell
from reconciler.engine.events import Story
from reconciler.rebalance import stories
from reconciler.rebalance.answers import Answer, Result
from reconciler.rebalance.drain import AnsweredEviction
from reconciler.rebalance.plan import Change, NodeWrite, Wish
from reconciler.rebalance.verdict import State, Verdict
from tests.reconciler.rebalance.builders import DEFAULTS, node, plan, pod, rules

# events.k8s.io/v1: a note has at most 1 kB; the recorder cuts at 1000 characters.
LONGEST = 1000
WORDS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def changed(state: State, before: State | None = None, wish: Wish = Wish.BLOCK) -> Story | None:
    return stories.changed(plan(wish, "2 nodes are signalled"), Verdict(state, "node a3 lacks it"), before, DEFAULTS)


def asked(result: Result, words: str = WORDS, name: str = "p1", on: str = "a1") -> AnsweredEviction:
    return AnsweredEviction(node(on, signal=10), Cell("g", "a"), pod(name), Answer(result, 60, words=words))


@dataclass(frozen=True)
class Case:
    """A story, its reason and kind, and words that it must contain."""

    reason: str
    kind: str
    tell: Callable[[], Story | None]
    words: tuple[str, ...]


PLACE = ("Zone a", "node group g")
CASES = [
    Case(
        "RebalanceSignalSeen",
        "Normal",
        lambda: changed(State.WAITING, wish=Wish.WAIT),
        (*PLACE, "2 nodes are signalled", "300 s", "second one"),
    ),
    Case("ZoneBlocked", "Normal", lambda: changed(State.BLOCKED), (*PLACE, "is blocked", "2 nodes are signalled")),
    Case("ZoneBlockCached", "Normal", lambda: changed(State.CACHED), (*PLACE, "restarted", "uncordoned")),
    Case(
        "ZoneBlockPartial",
        "Warning",
        lambda: stories.leaking(plan(Wish.BLOCK, "2 nodes are signalled"), Verdict(State.PARTIAL, "node a3 lacks it")),
        (*PLACE, "2 nodes are signalled", "node a3 lacks it"),
    ),
    Case(
        "NodeNotWritten",
        "Warning",
        lambda: stories.not_written(NodeWrite(node("a1"), Change.SET, Change.LEAVE, False), "denied by policy"),
        ("node a1", "denied by policy.", "may grow its zone", "admission policy"),
    ),
    Case(
        "NodeNotWritten",
        "Warning",
        lambda: stories.not_written(NodeWrite(node("a1"), Change.SET, Change.SET, True), "denied by policy"),
        ("node a1", "first seen", "denied by policy.", "leader remembers", "admission policy"),
    ),
    Case(
        "ZoneBlockIneffective",
        "Warning",
        lambda: stories.changed(plan(Wish.BLOCK), Verdict(State.INEFFECTIVE, "x", settles_in=31), None, DEFAULTS),
        (*PLACE, "not been Ready for long enough", "by itself in about 31 s"),
    ),
    Case(
        "ZoneBlockIneffective",
        "Warning",
        lambda: stories.changed(plan(Wish.BLOCK), Verdict(State.INEFFECTIVE, "x", look_again_in=31), None, DEFAULTS),
        (*PLACE, "no node of the zone is schedulable and Ready", "Uncordon"),
    ),
    Case(
        "ZoneBlockIneffective",
        "Warning",
        lambda: changed(State.INEFFECTIVE),
        (*PLACE, "may still add", "webhook's zone exclusion, where it is installed", "Uncordon"),
    ),
    Case(
        "AllZonesBlocked",
        "Warning",
        lambda: stories.none_open("g", ["b", "a"]),
        ("node group g", "a, b", "another zone", "min-open-zones = 1"),
    ),
    Case(
        "RebalanceSignalGone",
        "Normal",
        lambda: changed(State.OPEN, State.WAITING, Wish.OPEN),
        (*PLACE, "was not blocked", "2 nodes are signalled"),
    ),
    *(
        Case(
            "ZoneOpened",
            "Normal",
            partial(changed, State.OPEN, before, Wish.OPEN),
            (*PLACE, "is open again", "2 nodes are signalled"),
        )
        for before in (State.BLOCKED, State.CACHED, State.PARTIAL, State.INEFFECTIVE, State.STALE_TEMPLATE)
    ),
    Case(
        "StaleAutoscalerTemplate",
        "Warning",
        lambda: stories.stale(Cell("g", "a")),
        (*PLACE, "--node-info-cache-expire-time", "Restart"),
    ),
    Case(
        "PreventTaintContested",
        "Warning",
        lambda: stories.contested(node("a3"), DEFAULTS),
        ("node a3", "ebbtide/prevent-ca-scale-up", "Another program"),
    ),
    Case(
        "PreventTaintContested",
        "Warning",
        lambda: stories.contested(node("a3"), rules(prevent_ca_scale_up_taint_key="example.com/closed")),
        ("node a3", "example.com/closed"),
    ),
    Case(
        "SignalOutsideZones",
        "Normal",
        lambda: stories.outside(node("x1", cell=None, signal=10), DEFAULTS),
        ("Node x1", "serverless.tidbcloud.com/node", "topology.kubernetes.io/zone", "new nodes"),
    ),
    Case("EvictingPods", "Normal", lambda: stories.evicting(node("a1", signal=10)), ("Node a1", "zone a", "signal")),
    Case(
        "EvictionHeld",
        "Normal",
        lambda: stories.held(node("a1"), pod("p1"), "its volume pv-1 exists only in zone a"),
        ("p1", "node a1", "its volume pv-1 exists only in zone a", "zonal-volume-policy is hold"),
    ),
    Case(
        "EvictionMisconfigured",
        "Warning",
        lambda: stories.refused(asked(Result.MISCONFIGURED)),
        ("default/p1", "node a1", WORDS, "only one budget"),
    ),
    Case(
        "EvictionForbidden",
        "Warning",
        lambda: stories.refused(asked(Result.FORBIDDEN, "no RBAC policy matched")),
        ("default/p1", "node a1", "no RBAC policy matched. Permit"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason)
def test_a_story_names_its_object_the_reason_and_the_cure(case: Case) -> None:
    """NR-31, NR-32, NR-47: whoever reads it need not look anything up."""
    story = case.tell()
    assert story is not None
    assert (story.reason, story.kind) == (case.reason, case.kind)
    assert all(words in story.note for words in case.words), story.note


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason)
def test_a_story_is_a_clean_sentence(case: Case) -> None:
    """One line, from a capital to a full stop, without doubled spaces."""
    story = case.tell()
    assert story is not None
    assert story.note[0].isupper()
    assert story.note.endswith(".")
    assert "  " not in story.note
    assert ".." not in story.note
    assert "\n" not in story.note
    assert story.reason.isalnum()
    assert story.action.isalnum()


@pytest.mark.parametrize(
    ("state", "before"),
    [(State.OPEN, None), (State.OPEN, State.OPEN)],
)
def test_an_open_zone_that_was_open_is_no_news(state: State, before: State | None) -> None:
    """Nor is one that is seen for the first time."""
    assert changed(state, before, Wish.OPEN) is None


@pytest.mark.parametrize(
    "result", [result for result in Result if result not in (Result.MISCONFIGURED, Result.FORBIDDEN)]
)
def test_answers_that_pass_by_themselves_are_no_news(result: Result) -> None:
    """NR-45, NR-48: a budget that refuses is its purpose."""
    assert stories.refused(asked(result)) is None


def test_the_longest_names_still_fit() -> None:
    """Names of nodes and pods have up to 253 characters, groups and zones up to 63."""
    name, cell = "n" * 253, Cell("g" * 63, "z" * 63)
    long = plan(Wish.BLOCK, f"the signal of node {name} is older than 300 s")
    long = type(long)(cell, long.wish, long.reason, (), (), None, (), None)
    verdict = f"49 of 50 nodes lack the prevent taint, among them {name}"
    told = [stories.changed(long, Verdict(state, verdict), State.BLOCKED, DEFAULTS) for state in State]
    told += [stories.stale(cell), stories.contested(node(name), DEFAULTS), stories.evicting(node(name))]
    told += [stories.none_open("g" * 63, ["z" * 63] * 30)]
    told += [stories.refused(asked(r, WORDS, name, name)) for r in (Result.MISCONFIGURED, Result.FORBIDDEN)]
    assert all(len(story.note.encode()) <= LONGEST for story in told if story is not None)


@pytest.mark.parametrize("result", [Result.MISCONFIGURED, Result.FORBIDDEN])
def test_a_talkative_server_does_not_push_the_cure_out(result: Result) -> None:
    """Its words are cut, ours are not."""
    short, long = (stories.refused(asked(result, words, "p" * 253, "n" * 253)) for words in ("No.", "no word " * 500))
    assert short is not None
    assert long is not None
    assert len(long.note.encode()) <= LONGEST
    assert long.note.split("…. ")[-1] == short.note.split("No. ")[-1]


@pytest.mark.parametrize("words", ["", "Nothing to see", "Nothing to see.", "Nothing\n  to see."])
def test_the_server_s_words_become_one_sentence(words: str) -> None:
    """Whatever it ends with."""
    story = stories.refused(asked(Result.FORBIDDEN, words))
    assert story is not None
    assert f"not be evicted: {'Nothing to see' if words else 'unknown reason'}. Permit" in story.note


@pytest.mark.parametrize("group", ["Prod", "TiFlash-1", "lower"])
def test_names_keep_their_case(group: str) -> None:
    """Label values differ by it."""
    assert f"node group {group} " in stories.stale(Cell(group, "eu-central-1a")).note


def test_a_node_without_a_zone_is_told_of_all_the_same() -> None:
    """Its labels may have gone while its pods were evicted."""
    assert "zone None" not in stories.evicting(node("a1", cell=None)).note
