"""Every command of the pages, and where it is run.

A command is a line with a prompt in a block of a page. Each is run by a test as it stands there, with names put in for
words in capitals: `local` ones by `test_commands`, those `on a cluster` by `tests/controlplane/test_pages.py`, those of
docs/installing.md by `test_chart_page.py`. What cannot be run so is in `ELSEWHERE`, with what is done instead. Those
within sentences are looked up by `test_sentences.py`, and tried by `test_pages.py` where kubectl runs them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "charts/ebbtide/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
_BLOCK: Final = re.compile(r"^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```", re.MULTILINE | re.DOTALL)
_CONTINUED: Final = re.compile(r"\\\n\s*")
_COMMENT: Final = re.compile(r"\s+# .*$")

INSTALLING: Final = "docs/installing.md"
# What begins so is not run as it stands; why, and what is.
ELSEWHERE: Final[Mapping[str, str]] = {
    "make test": "it is what runs this; CI runs it as it stands",
    "make check": "CI runs it as it stands, beside the tests",
    '.venv/bin/python -m pytest -m "not controlplane"': "nearly all of `make test`, which runs these tests",
    "pip install .": "tests/ebbtide/test_wheel.py installs the wheel that it makes, into an environment of its own",
    "docker ": "takes a container engine; tests/chart/test_image.py tries what the Dockerfile says",
    "helm test ": "takes a container; tests/controlplane/test_chart.py runs it, with its pod as a process",
    "kubectl -n ebbtide-system port-forward ": "takes a kubelet; tests/browser opens the page of a real reconciler",
    "helm upgrade aws-node-termination-handler ": "somebody else's chart, from somewhere else",
    "aws ": "takes AWS; test_aws.py sends what they would to a mock of it, with the files of the page",
    "ebbtide reconciler ": "runs until it is stopped; most of tests/controlplane starts it so",
}


class Place(StrEnum):
    """Where a command is run."""

    LOCAL = "local"
    CLUSTER = "on a cluster"
    CHART = "with the page about installing"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class Command:
    """One command, on one line and without its comment; `page` is relative to the repository."""

    page: str
    text: str

    @property
    def place(self) -> Place:
        """Where it is run. Raises AssertionError where nobody has thought of it."""
        if any(self.text.startswith(each) for each in ELSEWHERE):
            return Place.ELSEWHERE
        if self.page == INSTALLING:
            return Place.CHART
        if self.text.startswith(("make ", "ebbtide demo ", "ebbtide config ", ".venv/bin/python ")):
            return Place.LOCAL
        assert self.text.startswith(("kubectl ", "ebbtide ", "helm ")), f"{self.page}: who runs this? {self.text}"
        return Place.CLUSTER


def commands() -> tuple[Command, ...]:
    """Those of all pages, in the order of each page."""
    return tuple(command for page in PAGES for command in commands_of(page))


def commands_of(page: Path) -> Iterator[Command]:
    for block in blocks(page, "console"):
        for line in _CONTINUED.sub("", block).splitlines():
            if line.strip().startswith("$ "):
                yield Command(page.relative_to(ROOT).as_posix(), _COMMENT.sub("", line.strip()[2:]))


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """The text of the blocks of a page in one of these languages, all of them without one."""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if not languages or block["language"] in languages:
            yield block["text"]


def on_a_cluster(page: str) -> tuple[str, ...]:
    """The commands of one page that are run on a cluster, in their order."""
    return tuple(each.text for each in commands_of(ROOT / page) if each.place is Place.CLUSTER)


def in_sentences(program: str) -> tuple[str, ...]:
    """The commands of that program that stand within a sentence of some page."""
    pattern = re.compile(rf"`({program} [^`…]*)`")
    return tuple(sorted({code for page in PAGES for code in pattern.findall(page.read_text(encoding="utf-8"))}))
