"""Versions that pages name are those of what they come with."""

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.docs.commands import PAGES, ROOT

VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
# An image with a tag, and whatever else says which version is to be taken.
NAMED: Final = re.compile(r"(?:ebbtide:|VERSION=|image\.tag=|`v|Version )(\d+\.\d+\.\d+)")


def test_chart_and_programs_have_one_version() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "ebbtide" / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_pages_name_the_version_that_they_are_of() -> None:
    found = [(page.name, said) for page in PAGES for said in NAMED.findall(page.read_text(encoding="utf-8"))]
    assert len(found) > 5
    assert {said for _, said in found} == {VERSION}, found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_pins_the_image_to_a_tag(page: Path) -> None:
    """The default is the chart's own version. What is set once is kept by each upgrade that reuses values, and so the
    next chart would run this version's programs."""
    assert not re.search(r"--set\S* image\.(tag|digest)=", page.read_text(encoding="utf-8"))
