"""What events of the controller of sets say, in both forms that the API server shows them in."""

from typing import Any

import pytest

from reconciler.scaler.refusals import Refusal, newest

ABOUT = {"uid": "u1", "kind": "StatefulSet"}
OF_A_CLAIM = "create Claim worker0-x-0 for Pod x-0 in StatefulSet x failed error: "
T0 = 1_767_225_600.0

EVENTS: dict[str, tuple[dict[str, Any], Refusal]] = {
    "as controllers write them": (
        {"note": "create Pod x-0 in StatefulSet x failed error: no", "deprecatedLastTimestamp": "2026-01-01T00:00:00Z"},
        Refusal(T0, "no"),
    ),
    "of a claim": ({"note": f"{OF_A_CLAIM}no", "eventTime": "2026-01-01T00:00:01.5Z"}, Refusal(T0 + 1.5, "no")),
    "a series": (
        {
            "note": "create Pod x-0 in StatefulSet x failed error: no",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "series": {"count": 3, "lastObservedTime": "2026-01-01T00:01:00.000000Z"},
        },
        Refusal(T0 + 60, "no"),
    ),
    "in words of its own": ({"note": "no"}, Refusal(0.0, "no")),
    "without words": ({"note": None, "eventTime": None, "series": None}, Refusal(0.0, "the API server refuses it")),
    "with pages of words": ({"note": "x" * 999}, Refusal(0.0, "x" * 400 + "…")),
}


@pytest.mark.parametrize(("event", "refusal"), EVENTS.values(), ids=EVENTS)
def test_what_an_event_says(event: dict[str, Any], refusal: Refusal) -> None:
    assert newest([{"regarding": ABOUT, **event}]) == {"u1": refusal}


def test_the_last_one_about_each_set_counts() -> None:
    def event(uid: str, at: str, note: str) -> dict[str, Any]:
        return {"regarding": {"uid": uid}, "eventTime": f"2026-01-01T00:00:{at}Z", "note": note}

    events = [event("u1", "02", "b"), event("u1", "01", "a"), event("u2", "01", "c"), {"note": "about nothing"}]
    assert newest(events) == {"u1": Refusal(T0 + 2, "b"), "u2": Refusal(T0 + 1, "c")}
