"""What is shown is what is in force, and can be used again."""

import json
import tomllib

import pytest

from ebbtide.config.schema import leaves
from ebbtide.config.show import as_json, as_text, as_toml
from tests.ebbtide.config.conftest import Read

TEXT = """
[node-rebalance]
node-groups = ["a-*", "b"]
hold-down = "90s"
max-rebalance-signal-time = 0.25
[worker-scaler]
max-size = 3000000000
worker-max-cores = 3.5
listen = "[::1]:19500"
[[worker-scaler.sts-configs]]
min-data-size-gb = 10
request-cpu = 2.5
limit-cpu = 3
worker-num = 2
node-selector-key = "a/b"
[certs]
directory = '/with "quotes"\\and\ttabs'
"""


@pytest.mark.parametrize("text", ["", TEXT], ids=["defaults", "all kinds of values"])
def test_toml_that_was_shown_gives_the_same_settings(read: Read, text: str) -> None:
    loaded = read(text)
    assert read(as_toml(loaded)).settings == loaded.settings


def test_toml_has_each_origin_beside_its_key(read: Read) -> None:
    shown = as_toml(read("", {"EBBTIDE__WEBHOOK__DRAIN": "3"})).splitlines()
    assert 'drain = "3s"  # EBBTIDE__WEBHOOK__DRAIN' in shown
    assert 'keep-alive = "3m"  # default' in shown


def test_text_has_a_line_for_each_key_with_value_and_origin(read: Read) -> None:
    rows = [line.split(maxsplit=2) for line in as_text(read("", {"EBBTIDE__WEBHOOK__DRAIN": "3"})).splitlines()]
    assert [row[0] for row in rows] == list(leaves())
    assert ["webhook.drain", '"3s"', "EBBTIDE__WEBHOOK__DRAIN"] in rows


def test_json_has_settings_origins_and_warnings(read: Read) -> None:
    loaded = read("[worker-scaler]\nshared-scale-up-tasks-per-pod = 32", {"EBBTIDE__WEBHOOK__DRAIN": "3"})
    document = json.loads(as_json(loaded))
    assert document["settings"] == tomllib.loads(as_toml(loaded))
    assert document["origins"]["webhook.drain"] == {"source": "environment", "name": "EBBTIDE__WEBHOOK__DRAIN"}
    assert document["origins"]["webhook.listen"] == {"source": "default"}
    assert document["warnings"] == [str(warning) for warning in loaded.warnings]
    assert len(document["warnings"]) == 1
