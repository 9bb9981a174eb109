"""Overrides from the environment: `EBBTIDE__SECTION__KEY`, dashes as underscores.

A variable is text; what it becomes depends on the key. Text that does not read as what the key wants is passed on as
it is, so that it is reported like any other wrong value.
"""

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_origin

from ebbtide.config.problems import Origin, Problem, unknown
from ebbtide.config.schema import VARIABLE_PREFIX, Leaf, leaves
from ebbtide.likeness import most_similar, nearest


@dataclass(frozen=True)
class Override:
    """A value for a key, and the variable that it came from."""

    leaf: Leaf
    value: Any
    origin: Origin


def overrides(environ: Mapping[str, str]) -> Iterator[Override | Problem]:
    """An override for each variable of ours, a problem for each that names no key."""
    known = {leaf.variable: leaf for leaf in leaves().values()}
    for name in sorted(environ):
        if not name.startswith(VARIABLE_PREFIX):
            continue
        origin = Origin("environment", name)
        if leaf := known.get(name):
            yield Override(leaf, _decode(leaf, environ[name]), origin)
        else:
            yield unknown(name, _nearest(name, known), Origin("environment"), what="variable")


def _nearest(name: str, known: Collection[str]) -> str:
    """In its own section, else in any: what all variables or those of a section have in common makes none alike."""
    section, _, key = name.upper().rpartition("__")
    below = f"{section}__"
    if near := nearest(key, (each.removeprefix(below) for each in known if each.startswith(below))):
        return f"{below}{near}"
    near = most_similar(
        name.upper().removeprefix(VARIABLE_PREFIX), (each.removeprefix(VARIABLE_PREFIX) for each in known)
    )
    return f"{VARIABLE_PREFIX}{near}"


def _decode(leaf: Leaf, text: str) -> Any:
    annotation = leaf.field.annotation
    if annotation is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if annotation in (int, float):
        return _number(text.strip())
    if get_origin(annotation) is tuple:
        return _list(text.strip())
    return text


def _number(text: str) -> Any:
    value = _toml(text)
    return value if isinstance(value, int | float) else text


def _list(text: str) -> Any:
    if not text.startswith("["):
        return [part.strip() for part in text.split(",")] if text else []
    try:
        return json.loads(text)
    except ValueError:
        return _toml(text)


def _toml(text: str) -> Any:
    try:
        document = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return document["value"] if len(document) == 1 else text
