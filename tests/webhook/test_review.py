"""What is read of a review: all that decides, and nothing else that might stand in its way."""

from typing import Any

import orjson
import pytest
from hypothesis import given

from tests.ebbtide.exclusion.builders import Raw, pod
from tests.ebbtide.exclusion.test_laws import NODES, VOLUMES
from tests.webhook.builders import admitted, review
from tests.webhook.test_golden import CASES, SETTINGS, Case, named
from tests.webhook.test_laws import RULES, known, pods, unhurried
from webhook.explain import explain
from webhook.review import Kind, NotAReviewError, Operation, read

WHOLE = review(pod(), name="p")


@pytest.mark.parametrize("case", [case for case in CASES if case.read("old") is None], ids=named)
def test_what_is_read_leads_to_the_same_as_the_whole_object(case: Case) -> None:
    """For every golden object that is created."""
    raw, rules = case.read("in"), SETTINGS[case.rules]
    whole = {"apiVersion": "apps/v1" if raw.get("kind") == "StatefulSet" else "v1", "kind": "Pod", **raw}
    _, decision, patch = admitted(raw, None, case.cluster, rules)
    found = explain(whole, case.cluster, rules, "default")
    assert (found["patch"], found["zones"]) == (patch, list(decision.exclusion.zones))


@unhurried
@given(pods(), NODES, VOLUMES)
def test_and_for_any_pod(raw: Raw, nodes: list[Raw], volumes: list[frozenset[str]]) -> None:
    """Whatever it has, and in whichever cluster."""
    _, decision, patch = admitted(raw, None, known(nodes, volumes), RULES)
    found = explain({"apiVersion": "v1", "kind": "Pod", **raw}, known(nodes, volumes), RULES, "default")
    assert (found["patch"], found["pool"]) == (patch, decision.pool)


def test_a_request_is_read() -> None:
    found = read(orjson.dumps({**WHOLE, "apiVersion": "admission.k8s.io/v1beta1"}))
    assert (found.version, found.uid) == ("admission.k8s.io/v1beta1", WHOLE["request"]["uid"])
    assert (found.kind, found.operation, found.subresource) == (Kind.POD, Operation.CREATE, "")
    assert (found.namespace, found.name, found.dry_run, found.old_object) == ("default", "p", False, None)


@pytest.mark.parametrize("name", ["operation", "subResource", "namespace", "name", "object", "oldObject", "dryRun"])
def test_what_is_null_is_what_is_not_there(name: str) -> None:
    bare = {"uid": "u", "kind": {}}
    null = {**WHOLE, "request": {**bare, name: None}}
    assert read(orjson.dumps(null)) == read(orjson.dumps({**WHOLE, "request": bare}))


@pytest.mark.parametrize("dry", [False, None, "yes", 1])
def test_only_true_is_a_dry_run(dry: Any) -> None:
    assert not read(orjson.dumps(review(pod(), dryRun=dry))).dry_run
    assert read(orjson.dumps(review(pod(), dryRun=True))).dry_run


@pytest.mark.parametrize("value", [b"1e999", b'"\xff"', b"9" * 400, b'{"a":1,"a":2}'])
def test_what_decides_nothing_may_be_anything(value: bytes) -> None:
    """A field of a newer cluster is its own affair."""
    body = orjson.dumps(review(pod(future="here")))
    assert read(body.replace(b'"here"', value)) == read(body)


@pytest.mark.parametrize("changes", [{"uid": 1}, {"kind": "Pod"}, {"kind": None}, {"object": []}, {"name": {}}])
def test_a_request_of_another_form_is_none(changes: Raw) -> None:
    """The message says nothing of it."""
    with pytest.raises(NotAReviewError, match=r"no AdmissionReview of v1 or v1beta1, or not of its form"):
        read(orjson.dumps(review(pod(), **changes)))


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'{"kind": "\xff"}', b"{} {}", b"\xef\xbb\xbf{}"])
def test_what_is_no_json_is_no_review(body: bytes) -> None:
    with pytest.raises(NotAReviewError):
        read(body)
