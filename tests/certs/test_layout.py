"""What is written into the Secret is read back as it was, whatever is beside it."""

import pytest

from certs.inspect import Fault
from certs.layout import Found, Holding, body, read
from ebbtide.vocabulary import CERTS_LABEL, CERTS_STEP_ANNOTATION
from tests.certs.builders import NOW, publishing, recovering, retiring, stable

HOLDINGS = {
    "stable": stable(),
    "asked": stable(request="ca"),
    "publishing": publishing(published_at=NOW),
    "retiring": retiring(),
    "recovering": recovering(),
}


def stored(holding: Holding, before: Found | None = None) -> dict[str, object]:
    made = body("tls", holding, before)
    made["metadata"] = {**made["metadata"], "uid": "u", "resourceVersion": "7"}
    return made


@pytest.mark.parametrize("name", HOLDINGS)
def test_a_holding_is_read_as_it_was_written(name: str) -> None:
    """And the step stands in an annotation, for people."""
    made = stored(HOLDINGS[name])
    found = read(made)
    assert found.holding == HOLDINGS[name]
    assert found.ours
    assert found.metadata["annotations"][CERTS_STEP_ANNOTATION] == HOLDINGS[name].step


def test_a_write_is_for_the_version_that_was_read_and_keeps_what_others_have_put_there() -> None:
    """Labels, annotations, owners and the type stay."""
    made = stored(stable())
    made["type"] = "Opaque"
    metadata = made["metadata"]
    assert isinstance(metadata, dict)
    metadata["labels"] |= {"team": "db"}
    metadata["ownerReferences"] = [{"uid": "o"}]
    again = body("tls", publishing(), read(made))
    assert again["type"] == "Opaque"
    assert again["metadata"]["resourceVersion"] == "7"
    assert again["metadata"]["ownerReferences"] == [{"uid": "o"}]
    assert again["metadata"]["labels"].keys() == {CERTS_LABEL, "team"}


def test_a_request_that_is_answered_leaves_no_annotation() -> None:
    """Otherwise it would be carried out again."""
    asked = read(stored(stable(request="leaf")))
    after = stored(stable(), asked)
    assert read(after).holding.request == ""


@pytest.mark.parametrize(
    "data", [None, {}, {"tls.crt": None}, {"tls.crt": 5, "ca-old.crt": "%%%"}, {"ca-signer.crt": "Zm9v"}, {"x": "y"}]
)
def test_nothing_that_data_may_be_is_too_much(data: object) -> None:
    """Whoever can write the Secret can write anything there."""
    found = read({"metadata": {"name": "tls"}, "data": data})
    assert not found.ours
    assert found.holding.leaf is None or isinstance(found.holding.leaf, Fault)
