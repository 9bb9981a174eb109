"""The docstring of each package names what is in it, so that whoever opens it knows where to go on."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A file for each command, named like the command.
COMMANDS = ROOT / "ebbtide" / "cli"
PACKAGES = [
    file.parent
    for product in ("certs", "ebbtide", "reconciler", "webhook")
    for file in sorted((ROOT / product).rglob("__init__.py"))
    if file.parent != COMMANDS
]


def parts(package: Path) -> set[str]:
    """Modules and packages directly in it, but for those of its own that others do not import."""
    found = {file.stem for file in package.glob("*.py")} | {file.parent.name for file in package.glob("*/__init__.py")}
    return {name for name in found if not name.startswith("_")}


def named(docstring: str) -> set[str]:
    """Words in a list, or marked as names within sentences."""
    lists = re.findall(r"^ {4}.*", docstring, re.MULTILINE)
    return {name for text in lists for name in re.findall(r"\w+", text)} | set(re.findall(r"`(\w+)`", docstring))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(ROOT).as_posix())
def test_every_part_is_named(package: Path) -> None:
    module = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    told = ast.get_docstring(module, clean=False) or ""
    assert parts(package) - named(told) == set()
