"""`make sbom`: a bill of everything that is in the image, the same one every time."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.chart.test_image import PROJECT, ROOT, pins

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def made(target: Path) -> bytes:
    """What the command of the Makefile writes, into another place."""
    (line,) = re.findall(r"^\t.*(\.venv/bin/cyclonedx-py .*)$", MAKEFILE, flags=re.MULTILINE)
    words = [str(target) if word == "dist/ebbtide.cdx.json" else word for word in line.split()]
    environ = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run(words, cwd=ROOT, env=environ, check=True, capture_output=True)
    return target.read_bytes()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return made(tmp_path_factory.mktemp("sbom") / "one.json")


def test_it_names_ebbtide_and_every_package_of_the_image_with_version_and_hashes(written: bytes) -> None:
    bill: dict[str, Any] = json.loads(written)
    about = bill["metadata"]["component"]
    assert (bill["bomFormat"], about["name"], about["version"]) == (
        "CycloneDX",
        "ebbtide",
        PROJECT["project"]["version"],
    )
    assert {each["name"]: each["version"] for each in bill["components"]} == pins("image.txt")
    for component in bill["components"]:
        (source,) = [each for each in component["externalReferences"] if each["type"] == "distribution"]
        assert all(each["alg"] == "SHA-256" for each in source["hashes"])
        assert source["hashes"]


def test_the_same_lock_gives_the_same_bytes(written: bytes, tmp_path: Path) -> None:
    assert made(tmp_path / "two.json") == written
