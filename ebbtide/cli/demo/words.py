"""Moments as sentences, for the time line and for plain output."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ebbtide.cli.demo.chronicle import Moment, What


class Voice(Enum):
    """Whose doing it is; the value stands before the sentence."""

    AWS = "AWS"
    USER = "user"
    EBBTIDE = "ebbtide"
    AUTOSCALER = "autoscaler"
    CLUSTER = "cluster"
    CLIENT = "client"
    ALARM = "alarm"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the time line; `at` is seconds since the curtain rose."""

    at: float
    voice: Voice
    text: str


def lines(moments: Iterable[Moment]) -> tuple[Line, ...]:
    """What is worth a line; moments of one kind that happen together share one."""
    together: dict[tuple[object, ...], list[Moment]] = {}
    for moment in moments:
        if moment.what in _SENTENCES:
            together.setdefault(_sharing(moment), []).append(moment)
    return tuple(_line(group) for group in together.values())


def clock(seconds: float) -> str:
    """`m:ss`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def short(pod: str) -> str:
    """The pod's name with the middle left out where a ReplicaSet made it: `tidb…4pgsx`."""
    parts = pod.split("-")
    return pod if len(parts) <= 2 or parts[-1].isdecimal() else f"{parts[0]}…{parts[-1]}"


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _sharing(moment: Moment) -> tuple[object, ...]:
    where = moment.node if moment.what in _BY_NODE else moment.zone
    return moment.what, int(moment.at), where, moment.words


def _line(group: Sequence[Moment]) -> Line:
    voice, sentence = _SENTENCES[group[0].what]
    return Line(group[0].at, voice, sentence(group[0], listed(sorted({short(each.who) for each in group}))))


def _taken(moment: Moment, names: str) -> str:
    pods = listed([short(pod) for pod in moment.words.split()]) if moment.words else "no pod"
    return f"takes {names} away, with {pods} there"


def _sent_to(moment: Moment, names: str) -> str:
    return f"{names}: sent to {moment.node} ({moment.words})"


def _grew(moment: Moment, _names: str) -> str:
    return f"grows {moment.who} {moment.words}" if moment.who else f"grows nothing; {moment.words}"


_BY_NODE: Final = frozenset({What.EVICTED, What.POD_PLACED, What.SENT_TO})
_SENTENCES: Final[dict[What, tuple[Voice, Callable[[Moment, str], str]]]] = {
    What.AWS: (Voice.AWS, lambda moment, _: moment.words),
    What.SCALED: (Voice.USER, lambda moment, _: moment.words),
    What.NODE_GONE: (Voice.AWS, _taken),
    What.NODE_ADDED: (Voice.CLUSTER, lambda moment, names: f"{names}: new in {moment.zone}"),
    What.NODE_READY: (Voice.CLUSTER, lambda _, names: f"{names}: node Ready"),
    What.POD_WAITS: (Voice.CLUSTER, lambda moment, names: f"{names} Pending: {moment.words}"),
    What.POD_PLACED: (Voice.CLUSTER, lambda moment, names: f"{names} → {moment.node}"),
    What.POD_SERVES: (Voice.CLUSTER, lambda moment, names: f"{names} Ready in {moment.zone}"),
    What.TAINTED: (Voice.EBBTIDE, lambda _, names: f"taints {names}"),
    What.UNTAINTED: (Voice.EBBTIDE, lambda _, names: f"takes its taint off {names}"),
    What.EVICTED: (Voice.EBBTIDE, lambda moment, names: f"evicts {names} from {moment.node}"),
    What.REFUSED: (Voice.EBBTIDE, lambda moment, names: f"may not evict {names} yet: {moment.words}"),
    What.ZONE: (Voice.EBBTIDE, lambda moment, _: f"{moment.zone} {moment.who}: {moment.words}"),
    What.WARNING: (Voice.ALARM, lambda moment, _: f"event {moment.who}: {moment.words}"),
    What.TROUBLE: (Voice.ALARM, lambda moment, _: moment.words),
    What.TABLE_BEGUN: (Voice.CLIENT, lambda moment, names: f"begins {names} ({moment.words})"),
    What.TABLE_BEGUN_AGAIN: (Voice.CLIENT, lambda _, names: f"of {names} is killed and started anew"),
    What.SENT_TO: (Voice.CLIENT, _sent_to),
    What.TOLD_TO_WAIT: (Voice.CLIENT, lambda moment, names: f"{names}: told to come again, {moment.words}"),
    What.TABLE_LOADED: (Voice.CLIENT, lambda _, names: f"has loaded {names}"),
    What.TABLE_FAILED: (Voice.ALARM, lambda moment, names: f"the client gives {names} up: {moment.words}"),
    What.MISDIRECTED: (Voice.ALARM, lambda moment, names: f"{moment.words} of {names} is redirected"),
    What.CUT_OFF: (Voice.ALARM, lambda moment, names: f"{names} goes while it loads {moment.words}"),
    What.WORKER_MADE: (Voice.EBBTIDE, lambda moment, names: f"makes {names} for {moment.words}"),
    What.WORKER_REMOVED: (Voice.EBBTIDE, lambda moment, names: f"removes {names}: {moment.words}"),
    What.POOL_TOLD: (Voice.EBBTIDE, lambda moment, _: f"shared pool {moment.words}"),
    What.GREW: (Voice.AUTOSCALER, _grew),
    What.SHRANK: (Voice.AUTOSCALER, lambda moment, _: moment.words),
}
