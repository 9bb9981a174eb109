"""`changelog.py VERSION` prints what the changelog says of a version; it fails unless that is the version of all parts.

The changelog has the form of Keep a Changelog: a heading per version, newest first, each with its date and with
sections of known names.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
UNRELEASED: Final = "Unreleased"
KINDS: Final = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
_HEADING: Final = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<day>\S+))?$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One version, or what is not released yet; `day` is "" for that."""

    name: str
    day: str
    text: str

    @property
    def number(self) -> tuple[int, ...]:
        """For comparing; of what is not released yet the highest there is."""
        return tuple(map(int, self.name.split("."))) if self.day else (sys.maxsize,)


def entries(text: str) -> tuple[Entry, ...]:
    """The changelog's entries, in its order."""
    heads = list(_HEADING.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return tuple(
        Entry(head["name"], head["day"] or "", text[head.end() : end].strip())
        for head, end in zip(heads, ends, strict=True)
    )


def problems(text: str) -> Iterator[str]:
    """What is not as Keep a Changelog has it."""
    found = entries(text)
    if [entry.name for entry in found if not entry.day] != [UNRELEASED]:
        yield f"every heading but the one of [{UNRELEASED}] has a date"
    for newer, older in pairwise(found):
        if newer.number <= older.number:
            yield f"{newer.name} stands above {older.name}"
    for entry in found:
        for kind in re.findall(r"^### (.*)$", entry.text, flags=re.MULTILINE):
            if kind not in KINDS:
                yield f"{entry.name}: {kind} is none of {', '.join(KINDS)}"
        if entry.day and not _is_day(entry.day):
            yield f"{entry.name}: {entry.day} is no date"
        if entry.day and not entry.text:
            yield f"{entry.name} says nothing"


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def versions() -> dict[str, str]:
    """The version of each part, by the file that says it."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    chart = yaml.safe_load((ROOT / "charts" / "ebbtide" / "Chart.yaml").read_text(encoding="utf-8"))
    return {"pyproject.toml": about["project"]["version"], "Chart.yaml": chart["version"]}


def notes(text: str, version: str) -> str:
    """What is said of that version. Raises ValueError where a part has another one, or nothing is said."""
    for place, other in versions().items():
        if other != version:
            raise ValueError(f"{place} says {other}, not {version}")
    for entry in entries(text):
        if entry.name == version:
            return entry.text
    raise ValueError(f"CHANGELOG.md has no [{version}]")


def main(version: str) -> int:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        print(notes(text, version))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: changelog.py VERSION")
    sys.exit(main(sys.argv[1]))
