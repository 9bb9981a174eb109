"""What holds for every answer of a front, whatever was asked."""

from urllib.parse import urlsplit

from tests.doubles.client import Heard

STATUSES = frozenset((200, 302, 400, 404, 408, 500, 503))


def check(answer: Heard, *, may_redirect: bool, fronts: tuple[str, ...] = ()) -> None:
    """Raises AssertionError. `fronts` are addresses to which nobody may be sent."""
    assert answer.status in STATUSES, answer
    assert answer.status != 500, answer
    assert ("Location" in answer.headers) == (answer.status == 302), answer
    assert ("Retry-After" in answer.headers) == (answer.status == 503), answer
    if answer.status == 302:
        assert may_redirect, answer
        _check_address(answer, fronts)
    if answer.status == 503:
        assert answer.headers["Retry-After"].isdigit(), answer
        assert int(answer.headers["Retry-After"]) >= 1, answer
    if answer.status in (400, 404, 503):
        assert answer.text.strip(), answer


def _check_address(answer: Heard, fronts: tuple[str, ...]) -> None:
    location = answer.headers["Location"]
    url = urlsplit(location)
    assert location == f"{url.scheme}://{url.hostname}:{url.port}/load_data", answer
    assert answer.text == "", answer
    assert location.removesuffix("/load_data") not in fronts, answer
