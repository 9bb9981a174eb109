"""The short account at the end: what happened when, how much of it, and what happens without a reconciler.

All of it is added up from chronicles; the comparison is a second play of the same script and seed.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ebbtide.cli.demo.chronicle import Absence, Chronicle, Moment, What, absences
from ebbtide.cli.demo.play import Ending
from ebbtide.cli.demo.words import clock, listed, short
from ebbtide.counting import count


@dataclass(frozen=True, slots=True)
class Facts:
    """What one play added up to. `killed` are pods that were on an instance when it was taken."""

    signalled: tuple[str, ...]
    tainted: tuple[str, ...]
    evicted: tuple[str, ...]
    held_back: tuple[str, ...]
    added: Counter[str]
    taken: tuple[str, ...]
    killed: tuple[str, ...]
    longest: Absence | None
    orders: tuple[Moment, ...]
    lasted: float


def facts_of(ending: Ending) -> Facts:
    """Adds up a play."""
    chronicle = ending.evidence.chronicle
    gone = chronicle.of(What.NODE_GONE)
    away = absences(chronicle)
    return Facts(
        signalled=_names(chronicle.of(What.SIGNALLED)),
        tainted=_names(chronicle.of(What.TAINTED)),
        evicted=_names(chronicle.of(What.EVICTED)),
        held_back=_names(chronicle.of(What.REFUSED)),
        added=Counter(moment.zone for moment in chronicle.of(What.NODE_ADDED)),
        taken=_names(gone),
        killed=tuple(pod for moment in gone for pod in moment.words.split()),
        orders=tuple(moment for moment in chronicle.of(What.GREW) if moment.who),
        longest=max(away, key=lambda absence: absence.lasted(ending.lasted), default=None),
        lasted=ending.lasted,
    )


def account(ending: Ending, alone: Ending) -> Iterator[str]:
    """The lines of the account; `alone` is the same play without a reconciler."""
    yield "What happened"
    for at, words in milestones(ending):
        yield f"  {clock(at):>5}  {words}"
    yield ""
    yield "In figures"
    yield from (f"  {line}" for line in figures(facts_of(ending)))
    yield ""
    yield "Without ebbtide (the same script and seed, played again)"
    yield from (f"  {line}" for line in comparison(facts_of(alone)))
    yield ""
    yield from judgement(ending)


def milestones(ending: Ending) -> Iterator[tuple[float, str]]:
    """Signal, taint, evictions, Pending, order, arrival, Ready, end: those that happened, in order."""
    chronicle = ending.evidence.chronicle
    steps = (
        _together(chronicle.of(What.SIGNALLED), "rebalance signal on {names}"),
        _together(chronicle.of(What.SIGNAL_GONE), "the signal of {names} goes"),
        _together(chronicle.of(What.NODE_GONE), "AWS takes {names} away"),
        _together(chronicle.of(What.NODE_ADDED), "{names} added in {zone}"),
        _together(chronicle.of(What.TAINTED), "no-growth taint on {names}"),
        _together(chronicle.of(What.UNTAINTED), "taint off {names}"),
        [(moment.at, f"{moment.zone} is {moment.who}") for moment in chronicle.of(What.ZONE)],
        _span(chronicle.of(What.EVICTED), "{count} evicted: {names}"),
        _span(chronicle.of(What.POD_WAITS), "{count} had to wait for a node: {names}"),
        [(moment.at, f"the autoscaler grows {moment.who}") for moment in chronicle.of(What.GREW) if moment.who],
        _back(chronicle),
    )
    # By the second, since what belongs together comes in this order.
    yield from sorted((step for kind in steps for step in kind), key=lambda step: int(step[0]))


def figures(facts: Facts) -> Iterator[str]:
    yield (
        f"{count(len(facts.signalled), 'signal')}, {count(len(facts.tainted), 'node')} tainted, "
        f"{count(len(facts.evicted), 'eviction')}" + _budgeted(facts)
    )
    yield f"nodes added: {_added(facts)}"
    yield _longest(facts)


def comparison(facts: Facts) -> Iterator[str]:
    if facts.taken:
        pods = f"{count(len(facts.killed), 'pod')} still on {'it' if len(facts.taken) == 1 else 'them'}"
        yield f"AWS takes {listed(sorted(facts.taken))} away with {pods}"
    else:
        yield "AWS takes nothing away"
    if facts.orders:
        orders = listed([f"{moment.who} at {clock(moment.at)}" for moment in facts.orders])
        yield f"the autoscaler grows {orders}; nodes that came: {_added(facts)}"
    yield _longest(facts)


def judgement(ending: Ending) -> Iterator[str]:
    """Whether the scenario ended as it promises, and if not, why."""
    if not ending.broken:
        yield f"As promised. {ending.scenario.promise}"
        return
    for promise, against in ending.broken:
        late = f" within {clock(ending.scenario.limit)}" if promise in ending.scenario.awaited else ""
        yield f"Not as promised{late}: {promise.words} ({against})"


def _back(chronicle: Chronicle) -> list[tuple[float, str]]:
    """When everything that was away had been replaced, and where."""
    away = absences(chronicle)
    ends = [absence.until for absence in away if absence.until is not None]
    if not ends or len(ends) < len(away):
        return []
    first = min(absence.since for absence in away)
    zones = sorted({moment.zone for moment in chronicle.of(What.POD_SERVES) if moment.at >= first})
    return [(max(ends), f"every pod is Ready again, the new ones in {listed(zones)}")]


def _together(moments: tuple[Moment, ...], words: str) -> list[tuple[float, str]]:
    """One step for moments of the same second and zone."""
    groups: dict[tuple[int, str], list[Moment]] = {}
    for moment in moments:
        groups.setdefault((int(moment.at), moment.zone), []).append(moment)
    return [
        (group[0].at, words.format(names=listed(sorted(moment.who for moment in group)), zone=zone))
        for (_, zone), group in groups.items()
    ]


def _span(moments: tuple[Moment, ...], words: str) -> list[tuple[float, str]]:
    """One step for all of them, with the time of the last where that is much later."""
    if not moments:
        return []
    first, last = moments[0].at, moments[-1].at
    until = f" (the last at {clock(last)})" if last - first >= 1 else ""
    names = _names(moments)
    return [(first, words.format(count=count(len(names), "pod"), names=listed([short(n) for n in names])) + until)]


def _names(moments: tuple[Moment, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(moment.who for moment in moments))


def _budgeted(facts: Facts) -> str:
    if not facts.held_back:
        return ""
    return f" ({listed([short(pod) for pod in facts.held_back])} held back for a while by a budget)"


def _added(facts: Facts) -> str:
    return listed([f"{count} in {zone}" for zone, count in sorted(facts.added.items())]) if facts.added else "none"


def _longest(facts: Facts) -> str:
    if facts.longest is None:
        return "no pod was away"
    lasted = f"longest time away: {facts.longest.slot}, {clock(facts.longest.lasted(facts.lasted))} minutes"
    return f"{lasted}, and nothing has taken its place" if facts.longest.until is None else lasted
