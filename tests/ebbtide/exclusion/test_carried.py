"""Whether a pod carries already what is decided for it, in the scheduler's reading."""

from dataclasses import dataclass

import pytest

from ebbtide import vocabulary
from ebbtide.exclusion.carried import Difference, carried_by_us, difference
from ebbtide.exclusion.pod import zones_of
from tests.ebbtide.exclusion.builders import (
    DEFAULT_NODES,
    GUARDED,
    OLD_Z,
    G,
    Raw,
    Z,
    answer,
    expression,
    not_in,
    pod,
    term,
    traits,
)


@dataclass(frozen=True)
class Case:
    """A pod among nodes, and what it should avoid and does not, or avoids without a reason."""

    name: str
    pod: Raw
    missing: str = ""
    stale: str = ""
    nodes: str = DEFAULT_NODES


def ours(*zones: str, key: str = Z) -> Raw:
    """A pod as admission left it."""
    return annotated(",".join(zones), term(not_in(*zones, key=key)))


def annotated(zones: str, *terms: Raw) -> Raw:
    return pod(annotations={vocabulary.BLOCKED_ZONES_ANNOTATION: zones}, terms=terms or None)


OPEN = "a b c"
CASES = [
    Case("WH-59 nothing is carried", pod(), missing="a"),
    Case("what is decided is carried", ours("a")),
    Case("WH-60 the zone is open again", ours("a"), stale="a", nodes=OPEN),
    Case("another zone instead", ours("b"), missing="a", stale="b"),
    Case("one zone more", ours("a"), missing="b", nodes="a! b! c"),
    Case("one zone less", ours("a", "b"), stale="b"),
    Case("WH-62 the last zone must stay open", pod(), nodes="a! b!"),
    Case("an exclusion from before the last zone was blocked", ours("a"), stale="a", nodes="a! b!"),
    Case("WH-10 the user's superset", pod(terms=[term(not_in("b", "a"))])),
    Case("WH-10 the user's, and the block is over", pod(terms=[term(not_in("b", "a"))]), nodes=OPEN),
    Case("WH-10 only one of two terms", pod(terms=[term(not_in("a")), term(expression("x", "Exists"))]), missing="a"),
    Case("every term in its own way", pod(terms=[term(not_in("a")), term(expression(Z, "In", "b"))])),
    Case("an empty term does not count", pod(terms=[{}, term(not_in("a"))])),
    Case("two expressions together", pod(terms=[term(not_in("a"), not_in("b"))]), nodes="a! b! c"),
    Case("the user pins it elsewhere", pod(selector={G: "g", Z: "b"})),
    Case("the user pins it elsewhere by affinity", pod(terms=[term(expression(Z, "In", "b", "c"))])),
    Case("the user pins it there", pod(selector={G: "g", Z: "a"}), missing="a"),
    Case("excluded under the label that nodes do not carry", ours("a", key=OLD_Z), missing="a"),
    Case("excluded under one of two labels", ours("a"), missing="a", nodes="a! a' b"),
    Case("excluded under both labels", pod(terms=[term(not_in("a"), not_in("a", key=OLD_Z))]), nodes="a! a' b"),
    Case("an annotation alone keeps nobody out", annotated("a"), missing="a"),
    Case("an annotation alone is not ours", annotated("a"), nodes=OPEN),
    Case("an annotation beside another exclusion is not ours", annotated("a", term(not_in("b"))), nodes=OPEN),
    Case("an annotation written with spaces", annotated(" a, ", term(not_in("a"))), stale="a", nodes=OPEN),
    Case("not opted in", pod(labels={})),
    Case("not opted in any more", {**ours("a"), "metadata": {}}, nodes=OPEN),
    Case("tolerates the block", pod(tolerations=[{"operator": "Exists"}])),
    Case("fits no node", pod(terms=[{}])),
    Case("bound", pod(nodeName="n")),
    Case("nothing is blocked", pod(labels=GUARDED), nodes=OPEN),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_difference_names_the_zones(case: Case) -> None:
    """Those that the pod may enter and must not, and those that only we keep it out of."""
    wanted = Difference(tuple(sorted(zones_of(case.missing))), tuple(sorted(zones_of(case.stale))))
    expected = wanted if case.missing or case.stale else None
    assert difference(traits(case.pod), answer(case.pod, case.nodes)) == expected


def test_a_difference_is_told_in_words() -> None:
    """Both halves, each with its zones."""
    found = difference(traits(ours("b", "c")), answer(ours("b", "c")))
    assert str(found) == "it may enter zone a, blocked now and it is kept out of zones b, c, not to be avoided any more"


def test_ours_is_what_annotation_and_expression_agree_on() -> None:
    """So that a user's own expression is never taken for ours."""
    assert carried_by_us(traits(ours("a", "b"))) == {"a", "b"}
    assert carried_by_us(traits(annotated("a", term(not_in("a", "b"))))) == frozenset()
    assert carried_by_us(traits(pod(terms=[term(not_in("a"))]))) == frozenset()
