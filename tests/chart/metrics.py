"""Which metrics an expression of Prometheus reads, and which there are."""

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
_LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\{[^}]*\}|\"[^\"]*\"")
_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b(?!\s*\()")
_PARTS = re.compile(r"_(bucket|count|sum)$")


def documented() -> frozenset[str]:
    """The metrics of the reference, which other tests hold to the code."""
    rows = re.findall(r"^\| `([a-z_]+)` \|", _PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return frozenset(rows)


def metrics_of(expression: str) -> frozenset[str]:
    """Names of metrics; a histogram's by its own name. Functions with an underscore are followed by a bracket."""
    names = set(_NAME.findall(_LABELS.sub(" ", expression)))
    whole = {_PARTS.sub("", name) for name in names if _PARTS.search(name)} & documented()
    return frozenset({name for name in names if _PARTS.sub("", name) not in whole} | whole)
