"""The chart with values of an earlier release, as `helm upgrade --reuse-values` has them: what is newer is not there.

What is not there means what it means by default, so that an upgrade takes nothing away.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART, Helm, Object, Values
from tests.chart.test_notes import notes

FIRST = Path(__file__).with_name("values-0.1.0.yaml")


def without(later: Values, earlier: Values) -> dict[str, Any]:
    """The earlier values, and for each key that only the later ones have the null by which Helm takes it away."""
    return {
        key: without(value, earlier[key]) if isinstance(value, dict) and key in earlier else earlier.get(key)
        for key, value in later.items()
    }


@pytest.fixture
def values() -> dict[str, Any]:
    later, earlier = (yaml.safe_load(file.read_text(encoding="utf-8")) for file in (CHART / "values.yaml", FIRST))
    return {**earlier, **without(later, earlier)}


def test_what_is_newer_is_taken_away(values: dict[str, Any]) -> None:
    """Or the others would see nothing."""
    assert values["webhook"]["pods"] == {"enabled": None, "failurePolicy": "Ignore", "timeoutSeconds": 3}


@pytest.mark.parametrize("version", ["helm4", "helm3"])
async def test_no_object_is_missing_and_the_webhook_is_asked_as_before(
    version: str, values: dict[str, Any], tmp_path: Path
) -> None:
    helm = Helm(version, tmp_path)
    now, then = await helm.render({}), await helm.render(values)
    assert [_name(each) for each in then] == [_name(each) for each in now]
    assert [each for each in then if _asks(each)] == [each for each in now if _asks(each)] != []


async def test_the_notes_are_the_same(values: dict[str, Any], tmp_path: Path) -> None:
    existing = {"certificates": {"mode": "existing", "existingSecret": "mine"}}
    assert await notes(tmp_path, {**values, **existing}) == await notes(tmp_path, existing)


def _name(each: Object) -> tuple[str, str]:
    return each["kind"], each["metadata"]["name"]


def _asks(each: Object) -> bool:
    return bool(each["kind"] == "MutatingWebhookConfiguration")
