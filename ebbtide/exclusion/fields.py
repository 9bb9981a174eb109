"""Strict access to the fields of a raw object: absent and null are empty, any other wrong type is an error.

The API server checks objects before admission sees them, so a wrong type here means that we read the wrong thing; an
answer made from that must not be given.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Raw = Mapping[str, Any]


def mapping(raw: Raw, *path: str) -> Raw:
    """The object at that path. Raises TypeError for anything else than an object, or nothing."""
    found: Raw = raw
    for name in path:
        value = found.get(name)
        if type(value) is dict:
            found = value
        elif value is None:
            return {}
        else:
            raise TypeError(f"{'.'.join(path[: path.index(name) + 1])} is no object but {type(value).__name__}")
    return found


def sequence(raw: Raw, name: str) -> Sequence[Raw]:
    """The list of objects of that name. Raises TypeError for anything else, or nothing."""
    value = raw.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError(f"{name} is no list but {type(value).__name__}")
    for entry in value:
        if type(entry) is not dict:
            raise TypeError(f"{name} has an entry that is no object but {type(entry).__name__}")
    return value


def text(raw: Raw, name: str) -> str:
    """The string of that name, "" for nothing. Raises TypeError for anything else."""
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{name} is no string but {type(value).__name__}")
    return value
