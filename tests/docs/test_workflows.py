"""The workflows of the code host run the targets of the Makefile, and nothing that a desk does not have."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
# What publishing takes beside the targets, which make all that is published.
PUBLISHING = {("docker", "login"), ("docker", "push"), ("helm", "registry"), ("helm", "push"), ("gh", "release")}


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return found


def commands(path: Path) -> Iterator[list[str]]:
    """Each command of each step, as words; of a pipe the last part."""
    for job in jobs(path).values():
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                yield line.rsplit("| ", 1)[-1].split()


def targets(path: Path) -> set[str]:
    made = [words[1:] for words in commands(path) if words[0] == "make"]
    return {word for words in made for word in words if "=" not in word and '"' not in word}


def test_every_step_is_a_target_or_publishes() -> None:
    (ci, release) = WORKFLOWS
    assert {words[0] for words in commands(ci)} == {"make"}
    assert {(words[0], words[1]) for words in commands(release) if words[0] != "make"} == PUBLISHING
    assert {"image", "chart"} <= targets(release)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_target_exists_and_what_a_desk_checks_is_checked(path: Path) -> None:
    assert {"check", "test", "wheel", "sbom"} <= targets(path) <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_may_only_read_unless_it_says_what_it_writes(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}
    for job in jobs(path).values():
        assert job["timeout-minutes"] > 0
        checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert [step["with"]["persist-credentials"] for step in checkouts] == [False]
