"""What is told of a clean-up, for people and for programs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ebbtide.cleanup.act import Account
from ebbtide.cleanup.decide import Kept, Removal
from ebbtide.cleanup.sweep import Result
from ebbtide.counting import count

# Enough to go and look; a thousand names help nobody.
_NAMES = 5


def counts(removals: Iterable[Removal]) -> Counter[str]:
    """How many marks of each kind; keys as in the document."""
    found: Counter[str] = Counter()
    for removal in removals:
        kind = removal.found.resource.kind
        marks = {"Taints": removal.taints, "Annotations": removal.annotations, "Labels": removal.labels}
        found.update({f"{kind[0].lower()}{kind[1:]}{what}": len(each) for what, each in marks.items() if each})
        if removal.whole:
            found[removal.found.resource.plural] += 1
    return found


def succeeded(account: Account) -> bool:
    return not account.failed and not account.left


def document(result: Result, account: Account, *, dry_run: bool) -> dict[str, Any]:
    """The JSON document. Keys may be added later, never renamed."""
    removals = result.plan.removals if dry_run else account.removed
    leading, kept = result.leader, result.plan.kept
    return {
        "dryRun": dry_run,
        "leader": {"identity": leading.identity, "lease": leading.lease} if leading else None,
        "counts": dict(counts(removals)),
        "objects": [_object(removal) for removal in removals],
        "failed": [{"object": str(at), "problem": problem} for at, problem in account.failed],
        "stillMarked": [str(at) for at in account.left],
        "leftAlone": [{"what": each.what, "objects": list(each.on), "reason": each.reason} for each in kept],
    }


def lines(result: Result, account: Account, *, dry_run: bool) -> Iterator[str]:
    """The text, line by line."""
    removals = result.plan.removals if dry_run else account.removed
    if dry_run:
        yield from (f"would remove from {removal.found}: {', '.join(removal.marks)}" for removal in removals)
    yield from _totals(removals, "would remove" if dry_run else "removed")
    yield from (f"FAILED {at}: {problem}" for at, problem in account.failed)
    if account.left:
        yield f"STILL MARKED, most likely anew: {_some([str(at) for at in account.left])}: is a reconciler running?"
    yield from (_left(kept) for kept in result.plan.kept)
    if result.leader is not None:
        after = "without --dry-run this would be refused" if dry_run else "it may put marks back"
        yield f"note: {result.leader.identity} leads by lease {result.leader.lease}: {after}"


def interrupted(account: Account) -> str:
    """What an unfinished run has done."""
    planned = f"{count(account.planned, 'object')} {'is' if account.planned == 1 else 'are'}"
    return f"interrupted: {len(account.removed)} of {planned} clean; run it again for the rest"


def _totals(removals: Sequence[Removal], verb: str) -> Iterator[str]:
    if not removals:
        yield "nothing of ebbtide's is on this cluster" if verb == "would remove" else "nothing to remove"
    for kind, number in counts(removals).items():
        what, where = _WORDS.get(kind, (kind, ""))
        yield f"{verb} {count(number, what)}{where}"


# One of them, and what they all come from or belong to.
_WORDS: Final = {
    "nodeTaints": ("prevent taint", " from nodes"),
    "nodeAnnotations": ("annotation", " from nodes"),
    "podAnnotations": ("annotation", " from pods"),
    "podLabels": ("label", " from pods"),
    "leases": ("lease", ""),
    "secrets": ("secret", ""),
    "statefulsets": ("set", " of workers"),
    "services": ("service", " of workers"),
    "persistentvolumeclaims": ("volume claim", " of workers"),
    "poddisruptionbudgets": ("disruption budget", ""),
    "configmaps": ("ledger", " of promises"),
}


def _object(removal: Removal) -> dict[str, Any]:
    at = removal.found
    place = {"namespace": at.namespace} if at.namespace else {}
    return {"kind": at.resource.kind, **place, "name": at.name, "marks": list(removal.marks)}


def _left(kept: Kept) -> str:
    return f"left alone: {kept.what} on {_some(kept.on)}: {kept.reason}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more
