"""The page about the architecture names what there is."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
NAMED = set(re.findall(r"`([a-z0-9_.]+)`", PAGE))


def parts(folder: str) -> list[str]:
    """Modules and packages directly in it, as they are imported."""
    found = [path for path in sorted((ROOT / folder).iterdir()) if not path.name.startswith("_")]
    return [f"{folder}.{path.stem}" for path in found if path.suffix == ".py" or (path / "__init__.py").exists()]


@pytest.mark.parametrize("part", [*parts("ebbtide"), "webhook", "certs"])
def test_every_part_of_the_shared_ground_is_named(part: str) -> None:
    assert part in NAMED


@pytest.mark.parametrize("package", [part for part in parts("reconciler") if (ROOT / part.replace(".", "/")).is_dir()])
def test_every_controller_package_is_named(package: str) -> None:
    assert package in NAMED


def test_nothing_is_named_that_is_not_there() -> None:
    modules = {name for name in NAMED if re.match(r"(ebbtide|reconciler)\.", name)}
    missing = {m for m in modules if not any((ROOT / (m.replace(".", "/") + end)).exists() for end in ("", ".py"))}
    assert not missing
