"""`pages.py write` writes the generated pages; `pages.py check` fails when one is stale, a link leads nowhere, or
pictures show an earlier page.

MkDocs checks the links inside `docs/`; here those of the Markdown files beside it are checked.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from docs import chart
from docs.drawings import CASES, drawing
from ebbtide.config.reference import page
from tests.browser import pictures

ROOT = Path(__file__).resolve().parent.parent
DECISIONS = ROOT / "docs" / "decisions"
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")


def decisions() -> str:
    """The list of decisions, from their titles."""
    notes = sorted(DECISIONS.glob("[0-9]*.md"))
    titles = [note.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ") for note in notes]
    lines = [f"- [{title}]({note.name})" for note, title in zip(notes, titles, strict=True)]
    return "\n".join(("# Decisions", "", "What was chosen, what else there was, and why.", "", *lines, ""))


GENERATED: Final[Mapping[Path, Callable[[], str]]] = {
    ROOT / "docs" / "configuration.md": page,
    DECISIONS / "index.md": decisions,
    chart.CHART / "README.md": chart.readme,
    chart.CHART / "values.schema.json": chart.schema,
    **{ROOT / "docs" / "images" / f"case-{case.name}.svg": partial(drawing, case) for case in CASES},
}


def main(verb: str) -> int:
    problems = list(stale()) + list(dangling()) if verb == "check" else []
    if verb == "write":
        for path, make in GENERATED.items():
            path.write_text(make(), encoding="utf-8")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


def stale() -> Iterator[str]:
    for path, make in GENERATED.items():
        if not path.exists() or path.read_text(encoding="utf-8") != make():
            yield f"{path.relative_to(ROOT)} is not what the code says: run 'make docs'"
    if not pictures.DRAWN_FROM.exists() or pictures.DRAWN_FROM.read_text(encoding="utf-8") != pictures.drawn_from():
        yield "docs/images has pictures of an earlier status page: run '.venv/bin/python -m tests.browser.pictures'"


def dangling() -> Iterator[str]:
    for path in (*sorted(ROOT.glob("*.md")), chart.CHART / "README.md"):
        for target, anchor in LINK.findall(path.read_text(encoding="utf-8")):
            place = path.parent / target if target else path
            if not place.exists():
                yield f"{path.name}: {target} does not exist"
            elif anchor and anchor not in anchors(place):
                yield f"{path.name}: {target} has no heading #{anchor}"


def anchors(path: Path) -> set[str]:
    """Of the headings of a page, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ +(.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


if __name__ == "__main__":
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit("usage: pages.py write|check")
    sys.exit(main(sys.argv[1]))
