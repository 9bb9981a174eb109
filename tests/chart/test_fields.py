"""Fields as server-side apply counts them are found in a manifest where it says anything about them."""

import pytest

from tests.chart.fields import Path, has, written
from tests.chart.helm import Object

ENTRY = 'k:{"name":"pods"}'
MANIFEST: Object = {
    "metadata": {"labels": {"a/b": "c"}, "finalizers": ["one"]},
    "webhooks": [{"name": "pods", "clientConfig": {"url": "https://x"}}, {"name": "sets", "clientConfig": {"a": 1}}],
    "data": None,
}
LIVE: Object = {
    "metadata": {
        "managedFields": [
            {"manager": "one", "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:a/b": {}}}}},
            {
                "manager": "other",
                "fieldsV1": {"f:webhooks": {ENTRY: {".": {}, "f:name": {}, "f:clientConfig": {"f:caBundle": {}}}}},
            },
        ]
    }
}


def test_what_is_written_is_told_without_what_only_says_which_item_is_meant() -> None:
    assert list(written(LIVE)) == [
        ("one", ("metadata", "labels", "a/b")),
        ("other", ("webhooks", ENTRY, "clientConfig", "caBundle")),
    ]


@pytest.mark.parametrize(
    ("path", "there"),
    [
        (("metadata", "labels", "a/b"), True),
        (("metadata", "labels", "d"), False),
        (("metadata", "annotations", "d"), False),
        (("metadata", "labels"), True),
        (("metadata", "finalizers", 'v:"one"'), True),
        (("metadata", "finalizers", 'v:"two"'), False),
        (("webhooks", ENTRY, "clientConfig", "url"), True),
        (("webhooks", ENTRY, "clientConfig", "caBundle"), False),
        (("webhooks", ENTRY, "clientConfig", "a"), False),
        (("webhooks", 'k:{"name":"none"}', "clientConfig", "url"), False),
        (("data", "key"), True),
    ],
)
def test_a_field_is_in_a_manifest_that_says_anything_about_it(path: Path, there: bool) -> None:
    """Of that item of a list and of no other; a value in place of a table speaks for all that could be in it."""
    assert has(MANIFEST, path) is there
