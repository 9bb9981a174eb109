"""Reviews gone wrong, from a seed: bytes cut and flipped, any value at any path, duplicate keys, depth, odd text."""

from collections.abc import Iterator
from random import Random
from typing import Any

import orjson

from ebbtide import vocabulary
from tests.ebbtide.exclusion.builders import G, Raw, Z, not_in, pod, term
from tests.webhook.builders import review

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**63, 1.5, "", "x", [], {}, [None], [[]], [{}], {"": None}),
    *("\u202e\u0000\u2028", "\U0010ffff" * 3, "~1/~0", "a" * 5000, {"key": 1}, [{"key": None}], {"a": {"b": {}}}),
    *("CREATE", "UPDATE", "Pod", "StatefulSet", "enabled", "disabled", "a", "g"),
)
_RAW = (b"1e400", b"-0", b"123456789012345678901234567890", b"NaN", b"\xff", b'"\\ud800"', b"[" * 2000, b'{"a":' * 500)


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


def mutated(seed: int, bodies: list[Raw]) -> bytes:
    """One body of a request, the same for the same seed."""
    random = Random(seed)
    changed = orjson.loads(orjson.dumps(random.choice(bodies)))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        _change(random, changed)
    body = orjson.dumps(changed, option=orjson.OPT_NON_STR_KEYS)
    return _damage(random, body) if random.random() < 0.3 else body


def _change(random: Random, root: Any) -> None:
    """A value at any path, or a member more, or one less."""
    containers = list(_containers(root))
    place = random.choice(containers)
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
    if isinstance(value, dict | list) and not any(value is each for each in _VALUES):
        yield value
        for below in value.values() if isinstance(value, dict) else value:
            yield from _containers(below)


def _damage(random: Random, body: bytes) -> bytes:
    match random.randrange(5):
        case 0:
            return body[: random.randrange(len(body))]
        case 1:
            at = random.randrange(len(body))
            return body[:at] + bytes([random.randrange(256)]) + body[at + 1 :]
        case 2:
            colons = [index for index, byte in enumerate(body) if byte == 0x3A]
            at = random.choice(colons) + 1
            return body[:at] + random.choice(_RAW) + b"," + body[at:]
        case 3:
            braces = [index for index, byte in enumerate(body) if byte == 0x7B]
            at = random.choice(braces) + 1
            return body[:at] + b'"spec":1,"metadata":[],"key":{},' + body[at:]
        case _:
            return random.randbytes(random.randrange(200))
