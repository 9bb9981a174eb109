"""Every program starts with what the project depends on, and without any of its extras or of what only tests need."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ebbtide.cli import commands
from tests.chart.test_image import PROJECT, ROOT

# Refuses modules as if their distributions were not installed, then runs a module as `python -m` does.
BARE = """
import runpy, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Absent())
module = sys.argv[2]
sys.argv = sys.argv[2:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
STARTS = [
    *(f"ebbtide {command.name} --help" for command in commands.COMMANDS),
    "ebbtide demo --list",
    "webhook --help",
    "reconciler --help",
    "certs --help",
]


def needed() -> set[str]:
    """The distributions that an installation without extras brings along."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or not _applies(requirement, ""):
            continue
        found.add(name)
        further = [Requirement(text) for text in metadata.requires(name) or ()]
        extras = requirement.extras or {""}
        waiting += [each for each in further if any(_applies(each, extra) for extra in (*extras, ""))]
    return found


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def absent() -> list[str]:
    """Top-level modules that are here and would not be there."""
    allowed = needed()
    owners = metadata.packages_distributions()
    ours = {"ebbtide", "webhook", "reconciler", "certs"}
    return sorted(
        module
        for module, names in owners.items()
        if module not in ours and not any(canonicalize_name(name) in allowed for name in names)
    )


def test_extras_and_tools_are_among_what_is_absent() -> None:
    assert {"aiobotocore", "moto", "pytest", "hypothesis"} <= set(absent())
    assert not {"aiohttp", "orjson", "msgspec", "structlog"} & set(absent())


@pytest.mark.parametrize("command", STARTS)
def test_a_command_starts_without_extras(command: str, tmp_path: Path) -> None:
    module, *arguments = command.split()
    words = [sys.executable, "-c", BARE, ",".join(absent()), module, *arguments]
    done = subprocess.run(
        words, cwd=ROOT, env={"HOME": str(tmp_path), "PATH": ""}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
