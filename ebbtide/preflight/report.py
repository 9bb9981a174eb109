"""What is told of findings, for people and for programs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import TextWrapper
from typing import Any

from ebbtide.preflight.finding import Finding, Status


def failed(findings: Sequence[Finding]) -> bool:
    return any(finding.status is Status.FAIL for finding in findings)


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """The JSON document. Keys may be added later, never renamed."""
    return {
        "checks": [
            {
                "name": finding.check,
                "status": finding.status,
                "seen": finding.seen,
                "why": finding.why,
                "cure": finding.cure,
                "objects": list(finding.objects),
            }
            for finding in findings
        ],
        "counts": _counts(findings),
    }


def lines(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """The text, `width` columns wide: each finding, below it why it matters and what to do."""
    longest = max((len(finding.check) for finding in findings), default=0)
    for finding in findings:
        head = f"{finding.status.upper():<8} {finding.check:<{longest}}  "
        yield _filled(head, finding.seen, width)
        for each in finding.objects if finding.listed else ():
            yield _filled(" " * len(head) + "- ", each, width)
        for label, text in (("why:  ", finding.why), ("cure: ", finding.cure)):
            if text:
                yield _filled(" " * len(head) + label, text, width)
    yield "summary: " + ", ".join(f"{count} {status}" for status, count in _counts(findings).items())


def _filled(head: str, text: str, width: int) -> str:
    """Words stay whole: names of objects and flags are there to be copied. Nothing in them steers the terminal."""
    indent = " " * len(head)
    shown = "".join(each if each.isprintable() or each.isspace() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return TextWrapper(
        width, initial_indent=head, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ).fill(shown)


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    found = Counter(finding.status for finding in findings)
    return {status.value: found[status] for status in Status}
