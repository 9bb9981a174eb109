"""Strict access to the fields of a raw object: absent and null are empty, any other wrong type is an error.

The API server checks objects before admission sees them, so a wrong type here means that we read the wrong thing; an
answer made from that must not be given.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Raw = Mapping[str, Any]


def mapping(raw: Raw, name: str, *below: str) -> Raw:
    """The object of that name, or further down. Raises TypeError for anything else than an object, or nothing."""
    value = raw.get(name)
    if type(value) is dict:
        return mapping(value, *below) if below else value
    if value is None:
        return {}
    raise TypeError(f"{name} is no object but {type(value).__name__}")


def sequence(raw: Raw, name: str) -> Sequence[Raw]:
    """The list of objects of that name. Raises TypeError for anything else, or nothing."""
    value = raw.get(name)
    if value is None:
        return ()
    if type(value) is not list:
        raise TypeError(f"{name} is no list but {type(value).__name__}")
    for entry in value:
        if type(entry) is not dict:
            raise TypeError(f"{name} has an entry that is no object but {type(entry).__name__}")
    return value


def text(raw: Raw, name: str) -> str:
    """The string of that name, "" for nothing. Raises TypeError for anything else."""
    value = raw.get(name)
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise TypeError(f"{name} is no string but {type(value).__name__}")


def texts(raw: Raw, name: str) -> Sequence[str]:
    """The list of strings of that name. Raises TypeError for anything else, or nothing."""
    value = raw.get(name)
    if value is None:
        return ()
    if type(value) is not list:
        raise TypeError(f"{name} is no list but {type(value).__name__}")
    for entry in value:
        if type(entry) is not str:
            raise TypeError(f"{name} has an entry that is no string but {type(entry).__name__}")
    return value
