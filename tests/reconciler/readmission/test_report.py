"""What is told of re-admission: figures and sentences."""

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from ebbtide.exclusion.carried import Difference
from ebbtide.kube.errors import Conflict, Forbidden, KubeError, NotFound, PreconditionFailed, ServerFault, Unreachable
from reconciler.engine.events import Event
from reconciler.engine.verdict import may_be_done
from reconciler.readmission import stories
from reconciler.readmission.decide import Deletion, OwnerKey, decide
from reconciler.readmission.report import Report, Result, result_of
from tests.reconciler.readmission.builders import WEB, owner_facts, waiting

WHY = Difference(("a",), ())
OWNER = OwnerKey("default", WEB)


@pytest.mark.parametrize(
    ("error", "result", "may_be"),
    [
        (NotFound("delete", 404), Result.GONE, False),
        (PreconditionFailed("delete", 409), Result.CHANGED, False),
        (Conflict("delete", 409), Result.CHANGED, False),
        (Forbidden("delete", 403), Result.FORBIDDEN, False),
        (ServerFault("delete", 500), Result.ERROR, True),
        (Unreachable("delete", "reset"), Result.ERROR, True),
    ],
)
def test_a_failure_is_counted_by_what_it_means(error: KubeError, result: Result, may_be: bool) -> None:
    """And only where the server may have done it all the same is a successor awaited."""
    assert result_of(error) is result
    assert may_be_done(error) is may_be


def test_waiting_pods_are_counted_by_their_reason() -> None:
    """The one that goes now counts as next until it has gone."""
    registry = CollectorRegistry()
    report = Report(registry, None)

    def waiting_for(reason: str) -> float | None:
        return registry.get_sample_value("readmission_waiting_pods", {"reason": reason})

    report.looked(OWNER, decide(owner_facts(waiting("web-1"), waiting("web-2"))), dry_run=False)
    assert (waiting_for("next"), waiting_for("no-webhook")) == (2, 0)
    report.looked(OWNER, decide(owner_facts(waiting("web-2"), webhook=False)), dry_run=False)
    assert (waiting_for("next"), waiting_for("no-webhook")) == (0, 1)
    report.looked(OWNER, decide(owner_facts()), dry_run=False)
    assert waiting_for("no-webhook") == 0


def test_what_holds_pods_back_for_long_is_logged_when_it_begins_and_not_again() -> None:
    """A reader of the log learns why nothing happens, once."""
    report = Report(CollectorRegistry(), None)
    no_webhook = decide(owner_facts(waiting("web-1"), webhook=False))
    gated = decide(owner_facts(waiting("web-1", schedulingGates=[{"name": "quota"}])))
    with capture_logs() as logs:
        for plan in (no_webhook, no_webhook, gated, gated, no_webhook):
            report.looked(OWNER, plan, dry_run=False)
    assert [(entry["event"], "webhook" in entry["why"] or "gates" in entry["why"]) for entry in logs] == [
        ("pods are not admitted again now", True),
        ("pod is not admitted again", True),
        ("pods are not admitted again now", True),
    ]


@pytest.mark.parametrize("event", [stories.readmitted(Deletion(waiting(), WHY)), stories.futile(waiting(), WHY)])
def test_a_story_names_pod_and_reason_in_clean_sentences(event: Event) -> None:
    """One line that fits into an event."""
    assert "default/web" in event.note
    assert "may enter zone a, blocked now" in event.note
    assert event.note[0].isupper()
    assert event.note.endswith(".")
    assert "  " not in event.note
    assert len(event.note) < 1000


def test_the_warning_says_what_to_do() -> None:
    """Whoever reads it need not know how re-admission works."""
    note = stories.futile(waiting(), WHY).note
    assert all(words in note for words in ("ReplicaSet default/web", "3 times", "every 60 min", "Check", "webhook"))
