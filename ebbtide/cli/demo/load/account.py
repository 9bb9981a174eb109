"""The account of a load: what happened when, figures, and every promise with whether it held."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from ebbtide.cli.demo.account import judgement
from ebbtide.cli.demo.chronicle import Chronicle, Moment, What
from ebbtide.cli.demo.load.promises import largest, most_own
from ebbtide.cli.demo.load.scene import Kind, LoadScene
from ebbtide.cli.demo.play import Ending
from ebbtide.cli.demo.words import clock, listed, short
from ebbtide.counting import count

# More names than this are only counted.
_NAMED: Final = 10
_PLACES: Final = {Kind.LOCAL: "local pods", Kind.SHARED: "the pool", Kind.OWN: "workers of their own"}


def account(ending: Ending) -> Iterator[str]:
    """Its lines."""
    yield "What happened"
    for at, words in milestones(ending.evidence.chronicle):
        yield f"  {clock(at):>5}  {words}"
    yield ""
    yield "In figures"
    yield from (f"  {line}" for line in figures(ending))
    yield ""
    yield "Promises"
    broken = {promise.words for promise, _ in ending.broken}
    for promise in (*ending.scenario.awaited, *ending.scenario.kept):
        yield f"  {'broken' if promise.words in broken else 'held':<6}  {promise.words}"
    yield ""
    yield from judgement(ending)


def milestones(chronicle: Chronicle) -> Iterator[tuple[float, str]]:
    """Those that happened, in order."""
    steps = (
        _span(chronicle.of(What.TABLE_BEGUN), "{count} begun{names}", "table"),
        *(
            _span(moments, f"{{count}} sent to {_PLACES[kind]}{{names}}", "table")
            for kind, moments in _by_kind(chronicle).items()
        ),
        _span(chronicle.of(What.TOLD_TO_WAIT), "{count} told to come again{names}", "client"),
        _span(chronicle.of(What.TABLE_BEGUN_AGAIN), "{count} killed and started anew{names}", "client"),
        _span(chronicle.of(What.SIGNALLED), "rebalance signal on {count}{names}", "node"),
        [(moment.at, f"{moment.zone} is {moment.who}") for moment in chronicle.of(What.ZONE)],
        _span(chronicle.of(What.REFUSED), "{count} not evicted, since busy{names}", "worker"),
        _span(chronicle.of(What.EVICTED), "{count} evicted, once idle{names}", "worker"),
        [(moment.at, f"{moment.who} added in {moment.zone}") for moment in chronicle.of(What.NODE_ADDED)],
        _sizes(chronicle),
        _last(chronicle.of(What.TABLE_LOADED), "the last table is loaded"),
        _last(chronicle.of(What.WORKER_GONE), "the last worker of a table's own is removed"),
    )
    yield from sorted((step for kind in steps for step in kind), key=lambda step: int(step[0]))


def figures(ending: Ending) -> Iterator[str]:
    chronicle, load = ending.evidence.chronicle, ending.evidence.scene.load or LoadScene()
    placed = {kind: len({moment.who for moment in moments}) for kind, moments in _by_kind(chronicle).items()}
    where = ", ".join(f"{count} in {_PLACES[kind]}" for kind, count in placed.items())
    yield f"{count(len(load.tables), 'table')}: {where or 'none has a place'}"
    sent, again = load.answers.get(302, 0), load.answers.get(503, 0)
    yield f"the front answered with {count(sent, 'redirect')} and told clients to come again {count(again, 'time')}"
    slowest = max(load.tables, key=lambda view: view.asked, default=None)
    if slowest is not None:
        yield f"longest way to a place: {slowest.table.name}, {clock(slowest.asked)} minutes"
    if load.pool is not None:
        pods, tasks = largest(chronicle), busiest(chronicle)
        yield f"the pool had {count(pods, 'pod')} at most, each with up to {count(tasks, 'task')}"
    if most_own(chronicle):
        yield f"workers of their own at the same time: {most_own(chronicle)}"


def busiest(chronicle: Chronicle) -> int:
    """Tasks of one pod at the same time, at most, as clients saw it."""
    running: Counter[str] = Counter()
    sent: dict[str, str] = {}
    most = 0
    for moment in chronicle.of(What.SENT_TO, What.TABLE_LOADED, What.TABLE_FAILED):
        if moment.what is not What.SENT_TO:
            running[sent.pop(moment.who, "")] -= 1
        elif moment.who not in sent:
            sent[moment.who] = moment.node
            running[moment.node] += 1
            most = max(most, running[moment.node])
    return most


def _by_kind(chronicle: Chronicle) -> dict[Kind, tuple[Moment, ...]]:
    sent = chronicle.of(What.SENT_TO)
    found = {kind: tuple(moment for moment in sent if moment.words == kind.value) for kind in Kind}
    return {kind: moments for kind, moments in found.items() if moments}


def _sizes(chronicle: Chronicle) -> Iterator[tuple[float, str]]:
    """When the pool was largest, and when it was gone."""
    sized = [(moment.at, int(moment.words)) for moment in chronicle.of(What.POOL_SIZED)]
    most = largest(chronicle)
    if most:
        yield next((at, f"the pool has {count(most, 'pod')}") for at, size in sized if size == most)
    if sized and not sized[-1][1]:
        yield sized[-1][0], "the pool has no pod any more"


def _last(moments: Sequence[Moment], words: str) -> list[tuple[float, str]]:
    return [(moments[-1].at, words)] if moments else []


def _span(moments: Sequence[Moment], words: str, noun: str) -> list[tuple[float, str]]:
    """One step for all of them, with the time of the last where that is later."""
    if not moments:
        return []
    first, last = moments[0].at, moments[-1].at
    names = list(dict.fromkeys(short(moment.who) for moment in moments))
    until = f" (the last at {clock(last)})" if last - first >= 1 else ""
    told = f": {listed(names)}" if len(names) <= _NAMED else ""
    return [(first, words.format(count=count(len(names), noun), names=told) + until)]
