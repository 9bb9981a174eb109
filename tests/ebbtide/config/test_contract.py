"""Keys and defaults are those that users were promised."""

from pathlib import Path

import pytest

from ebbtide.config import Settings, load
from ebbtide.config.schema import leaves
from tests.ebbtide.config.conftest import Read

PROMISED = Path(__file__).with_name("contract.toml")


def test_every_promised_key_exists_and_there_is_no_other() -> None:
    origins = load(PROMISED, {}).origins
    assert {key for key, origin in origins.items() if origin.source == "file"} == set(leaves())


def test_every_default_is_the_promised_one() -> None:
    assert load(PROMISED, {}).settings == load(None, {}).settings


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().node_rebalance.hold_down = 1.0  # type: ignore[misc]


def test_every_key_says_what_it_is_for() -> None:
    assert [key for key, leaf in leaves().items() if not leaf.field.description] == []


@pytest.mark.parametrize(
    ("environ", "namespace", "origin"),
    [
        ({}, "ebbtide-system", "default"),
        ({"POD_NAMESPACE": "here"}, "here", "POD_NAMESPACE"),
        ({"POD_NAMESPACE": "here", "EBBTIDE__NAMESPACE": "there"}, "there", "EBBTIDE__NAMESPACE"),
        ({"POD_NAMESPACE": "here", "EBBTIDE__NAMESPACE": ""}, "here", "POD_NAMESPACE"),
    ],
)
def test_the_namespace_is_the_pods_own_unless_named(
    read: Read, environ: dict[str, str], namespace: str, origin: str
) -> None:
    loaded = read('namespace = ""', environ)
    assert (loaded.settings.namespace, str(loaded.origins["namespace"])) == (namespace, origin)
