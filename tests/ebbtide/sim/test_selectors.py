"""Label selectors in both forms."""

import pytest

from ebbtide.sim.refusals import BadRequest
from ebbtide.sim.selectors import label_selector, matches

LABELS = {"app": "db", "tier": "back", "empty": ""}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("", True),
        ("app=db", True),
        ("app==db,tier=back", True),
        ("app=web", False),
        ("app!=web", True),
        ("absent!=x", True),
        ("app in (web, db)", True),
        ("app notin (web,db)", False),
        ("absent notin (x)", True),
        ("app", True),
        ("absent", False),
        ("!absent", True),
        ("!app", False),
        ("empty=", True),
        ("app=db, !absent ,tier in (back)", True),
    ],
)
def test_query(text: str, selects: bool) -> None:
    """The query parameter reads as the real server reads it."""
    assert label_selector(text)(LABELS) is selects


@pytest.mark.parametrize("text", ["app in db", "=x", "a=b=c", "app in (a", ",,"])
def test_nonsense_is_refused(text: str) -> None:
    """What cannot be read is a bad request, never an empty selector."""
    with pytest.raises(BadRequest):
        label_selector(text)


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "db"}}, True),
        ({"matchLabels": {"app": "db", "absent": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}, True),
        ({"matchExpressions": [{"key": "absent", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_object(selector: dict[str, object] | None, selects: bool) -> None:
    """A missing selector selects nothing, an empty one everything."""
    assert matches(selector, LABELS) is selects
