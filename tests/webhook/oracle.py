"""What the answer to a body has to be, told by plain definitions and other libraries than the product's."""

import json
import time
from http import HTTPStatus
from typing import Any, Final

import jsonpatch
import orjson

from ebbtide import vocabulary
from tests.ebbtide.exclusion.builders import Z
from tests.ebbtide.exclusion.injector import REQUIRED
from tests.webhook.builders import Raw, operations_of
from tests.webhook.sendable import is_sendable
from tests.webhook.test_laws import OWN_PATHS, keeps
from webhook.app import PATH, Admission
from webhook.messages import JSON, Head

OK: Final = HTTPStatus.OK
BAD: Final = HTTPStatus.BAD_REQUEST
FAULT: Final = HTTPStatus.INTERNAL_SERVER_ERROR


def check(admission: Admission, body: bytes) -> HTTPStatus:
    """The status of the answer, after it has been held against the body."""
    asked = head()
    assert admission.begin(asked) is None
    reply = admission.answer(asked, body)
    if reply.status is BAD:
        assert not is_review(strictly(body)) or not is_review(by_the_first(body))
        assert reply.last
        return BAD
    whole = leniently(body)
    assert is_review(whole)
    request = whole["request"]
    if reply.status is FAULT:
        assert reply.last
        assert not is_sendable(request)
        return FAULT
    assert reply.status is OK
    answer = orjson.loads(reply.body)
    assert (answer["kind"], answer["apiVersion"]) == (whole["kind"], whole["apiVersion"])
    response = answer["response"]
    assert response["uid"] == request["uid"]
    assert response["allowed"] is True
    check_patch(request, response, leniently(body)["request"].get("object"))
    return OK


def head() -> Head:
    found = Head()
    found.method, found.target, found.content_type, found.since = b"POST", PATH.encode(), JSON, time.perf_counter()
    return found


def strictly(body: bytes) -> Any:
    """JSON by the letter, in every corner; None for anything else."""
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def by_the_first(body: bytes) -> Any:
    """The same, of two members of one name the first; of what others read the last counts."""
    return json.loads(body, object_pairs_hook=lambda pairs: dict(reversed(pairs)))


def leniently(body: bytes) -> Any:
    """The same, whatever its strings and numbers are: nobody has to look at those that decide nothing."""
    found = strictly(body)
    return json.loads(body.decode("utf-8", "surrogateescape"), parse_int=float) if found is None else found


def is_review(parsed: Any) -> bool:
    """By the plain definition."""
    request = parsed.get("request") if isinstance(parsed, dict) else None
    if not isinstance(request, dict):
        return False
    texts = [request.get(name) for name in ("uid", "operation", "subResource", "namespace", "name")]
    kind = request.get("kind")
    if isinstance(kind, dict):
        texts += [kind.get(name) for name in ("group", "version", "kind")]
    return (
        parsed.get("kind") == "AdmissionReview"
        and parsed.get("apiVersion") in ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
        and bool(request.get("uid"))
        and isinstance(kind, dict)
        and all(text is None or isinstance(text, str) for text in texts)
        and all(request.get(name) is None or isinstance(request[name], dict) for name in ("object", "oldObject"))
    )


def check_patch(request: Raw, response: Raw, stored: Any) -> None:
    """Nothing but our own is added, and the zones that are said to be excluded are, wherever the pod might go.

    `stored` is the object once more, to be changed.
    """
    ops, zones = operations_of(response), response["auditAnnotations"]["zones"]
    assert zones in ("", "a")
    if ops:
        template = "/spec/template" if request["kind"]["kind"] == "StatefulSet" else ""
        assert all(each["op"] in ("add", "replace") and is_ours(each["path"], template) for each in ops)
        jsonpatch.apply_patch(stored, ops, in_place=True)
        assert keeps(request["object"], stored)
    if zones:
        assert request["kind"]["kind"] == "Pod"
        assert is_kept_out(stored, zones)
    else:
        added = orjson.dumps(ops)
        assert b"NotIn" not in added
        assert vocabulary.BLOCKED_ZONES_ANNOTATION.encode() not in added


def is_ours(path: str, template: str) -> bool:
    """Whether it leads to a place of ours, or to what that one would be in."""
    return any(path.startswith(template + place) or f"{template}{place}/".startswith(f"{path}/") for place in OWN_PATHS)


def is_kept_out(stored: Raw, zone: str) -> bool:
    """Whether all alternatives that the scheduler has say so, as it reads them."""
    terms = stored["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    alternatives = [term for term in terms if term.get("matchExpressions") or term.get("matchFields")]
    return bool(alternatives) and all(_excludes(term, zone) for term in alternatives)


def _excludes(term: Raw, zone: str) -> bool:
    return any(
        (each.get("key"), each.get("operator")) == (Z, "NotIn")
        and type(each.get("values")) is list
        and zone in each["values"]
        for each in term.get("matchExpressions") or ()
    )
