"""Reviews gone wrong, from a seed: any value at any path, numbers, depth and text of every kind, duplicate keys, bytes.

Of each kind of damage (`Damage`) some of the bodies are JSON by its grammar, as long as the damage leaves them that.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple

import orjson

from ebbtide import vocabulary
from tests.ebbtide.exclusion.builders import G, Raw, Z, not_in, pod, term
from tests.webhook.builders import review

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**63, 1.5, "", "x", [], {}, [None], [[]], [{}], {"": None}),
    *("\u202e\u0000\u2028", "\U0010ffff" * 3, "~1/~0", "a" * 5000, {"key": 1}, [{"key": None}], {"a": {"b": {}}}),
    *("CREATE", "UPDATE", "Pod", "StatefulSet", "enabled", "disabled", "a", "g"),
)
_SHARED = frozenset(map(id, _VALUES))
_NUMBERS = (
    *(b"1e400", b"-1e400", b"1e-400", b"-0", b"-0.0", b"1E+2", b"9007199254740993", b"18446744073709551616"),
    *(b"123456789012345678901234567890", b"-" + b"9" * 400, b"9" * 5000, b"0." + b"3" * 400, b"1" + b"0" * 400 + b".5"),
)
_NESTS = tuple(
    opened * depth + b"1" + closed * depth
    for depth in (30, 300, 2000, 100_000)
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"key":', b"}]"))
)
_TEXTS = (
    *(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"\\u202e"', b'"\\/"', b'"\\ufeff"'),
    *(
        '"\u0301\u200d\ufeff"'.encode(),
        '"\ufffe\uffff"'.encode(),
        '"\u01c5\u0130\u1e9e"'.encode(),
        b'"' + b"\\\\" * 999 + b'"',
    ),
)
# Looks like a value, and is none by the grammar.
_NO_JSON = (
    b"NaN",
    b"-Infinity",
    b"01",
    b"1.",
    b"+1",
    b"0x1f",
    b"'a'",
    b"True",
    b'"\\x41"',
    b'"\\ud8"',
    b'"\n"',
    b"[1,]",
)
# Of an object that has members.
_EDGES = re.compile(rb"\{(?!\})|(?<!\{)\}")
_TWICE = b'"spec":1,"metadata":[],"key":{},"kind":"Pod"'


class Damage(StrEnum):
    """What was done to a body, beside values that were put where others had been."""

    NONE = "other values"
    NUMBER = "a number"
    NEST = "a nest"
    TEXT = "a text"
    TWICE = "a key that comes twice"
    NO_JSON = "a word that is no JSON"
    CUT = "cut off"
    FLIPPED = "a byte of chance"
    NOISE = "noise"


class Mutation(NamedTuple):
    """The body of a request, and how it was damaged."""

    damage: Damage
    body: bytes


def originals() -> list[Raw]:
    """Reviews that are well, of every shape that leads somewhere."""
    pool = {vocabulary.POOL_LABEL: "shared", vocabulary.NODE_GROUP_PIN_LABEL: "g"}
    tolerations = [{"key": G, "operator": "Equal", "value": "h", "effect": "NoSchedule"}]
    carried = pod(annotations={vocabulary.BLOCKED_ZONES_ANNOTATION: "b"}, terms=[term(not_in("b"))])
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod()["spec"]}
    labels = {"metadata": {"labels": pool, "name": "s"}, "kind": "StatefulSet"}
    before = {**labels, "spec": {"replicas": 1, "template": {**template, "spec": {"containers": []}}}}
    whole = {**labels, "spec": {"replicas": 2, "template": template}}
    terms = [{}, term(not_in("a", "b")), {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    return [
        review(pod(labels=pool, tolerations=tolerations, terms=terms, volumes=[{"persistentVolumeClaim": {}}])),
        review(carried),
        review(
            pod(selector={G: "g", Z: "a"}, owner={"kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True})
        ),
        review(whole),
        review(whole, before),
    ]


def mutated(seed: int, bodies: list[bytes]) -> Mutation:
    """One body of a request, made of one of these, the same for the same seed."""
    random = Random(seed)
    changed = orjson.loads(random.choice(bodies))
    damage = random.choice(_DAMAGES) if random.random() < 0.5 else Damage.NONE
    changes = (1, 1, 1, 2, 4) if damage is Damage.NONE else (0, 0, 1)
    for _ in range(random.choice(changes)):
        _change(random, changed)
    return Mutation(damage, _DAMAGED[damage](random, orjson.dumps(changed)))


def _change(random: Random, root: Any) -> None:
    """A value at any path, or a member more, or one less."""
    place = random.choice(list(_containers(root)))
    if isinstance(place, dict):
        key = random.choice([*place, random.choice(("", "x", "~", "a/b", "labels", "operator"))])
        if random.random() < 0.15:
            place.pop(key, None)
        else:
            place[key] = random.choice(_VALUES)
    elif place and random.random() < 0.8:
        place[random.randrange(len(place))] = random.choice(_VALUES)
    else:
        place.append(random.choice(_VALUES))


def _containers(value: Any) -> Iterator[Any]:
    """All objects and lists. Values of chance are shared and so left alone."""
    found = [value]
    for each in found:
        yield each
        below = each.values() if type(each) is dict else each
        found += [one for one in below if type(one) in (dict, list) and id(one) not in _SHARED]


def _undamaged(_random: Random, body: bytes) -> bytes:
    return body


def _instead(random: Random, body: bytes, values: tuple[bytes, ...]) -> bytes:
    """One of the values in the place of any value below the review itself, which is well but for it."""
    whole = orjson.loads(body)
    place = random.choice([each for each in _containers(whole) if each])
    at = random.choice(list(place)) if isinstance(place, dict) else random.randrange(len(place))
    place[at] = orjson.Fragment(random.choice(values))
    return orjson.dumps(whole)


def _twice(random: Random, body: bytes) -> bytes:
    """Before the members of an object or behind them: of two the later one counts."""
    edge = random.choice(list(_EDGES.finditer(body)))
    if edge[0] == b"{":
        return body[: edge.end()] + _TWICE + b"," + body[edge.end() :]
    return body[: edge.start()] + b"," + _TWICE + body[edge.start() :]


def _cut(random: Random, body: bytes) -> bytes:
    return body[: random.randrange(len(body))]


def _flipped(random: Random, body: bytes) -> bytes:
    at = random.randrange(len(body))
    return body[:at] + bytes([random.randrange(256)]) + body[at + 1 :]


def _noise(random: Random, _body: bytes) -> bytes:
    return random.randbytes(random.randrange(200))


_DAMAGED: Mapping[Damage, Callable[[Random, bytes], bytes]] = {
    Damage.NONE: _undamaged,
    Damage.NUMBER: lambda random, body: _instead(random, body, _NUMBERS),
    Damage.NEST: lambda random, body: _instead(random, body, _NESTS),
    Damage.TEXT: lambda random, body: _instead(random, body, _TEXTS),
    Damage.TWICE: _twice,
    Damage.NO_JSON: lambda random, body: _instead(random, body, _NO_JSON),
    Damage.CUT: _cut,
    Damage.FLIPPED: _flipped,
    Damage.NOISE: _noise,
}
_DAMAGES = [damage for damage in Damage if damage is not Damage.NONE]
