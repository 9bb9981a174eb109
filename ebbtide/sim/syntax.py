"""Syntax of names, labels and keys, in the server's own words (k8s.io/apimachinery `pkg/util/validation`)."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import orjson

from ebbtide.sim.refusals import field_problem

Problem = dict[str, str]

_SUBDOMAIN_PATTERN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_PATTERN)
SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_PATTERN}')"
)
_VALUE_PATTERN: Final = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_VALUE: Final = re.compile(_VALUE_PATTERN)
_VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE_PATTERN}')"
)
_NAME_PATTERN: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME: Final = re.compile(_NAME_PATTERN)
_NAME_WORDS: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PATTERN}')"
)
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
MAX_NAME: Final = 253
_MAX_LABEL: Final = 63


def invalid_value(field: str, value: Any, detail: str) -> Problem:
    """The cause for a value that is not acceptable; the value is shown as Go prints it."""
    return field_problem(field, f"Invalid value: {shown(value)}: {detail}")


def shown(value: Any) -> str:
    return orjson.dumps(value).decode()


def object_name(field: str, name: str) -> Iterator[Problem]:
    """Problems of a DNS subdomain."""
    if len(name) > MAX_NAME:
        yield invalid_value(field, name, f"must be no more than {MAX_NAME} characters")
    elif not _SUBDOMAIN.fullmatch(name):
        yield invalid_value(field, name, SUBDOMAIN_WORDS)


def qualified_name(field: str, key: str) -> Iterator[Problem]:
    """Problems of a label, annotation or taint key."""
    for detail in _key_problems(key):
        yield invalid_value(field, key, detail)


def label_value(field: str, value: str) -> Iterator[Problem]:
    """Problems of a label or taint value."""
    if len(value) > _MAX_LABEL:
        yield invalid_value(field, value, f"must be no more than {_MAX_LABEL} characters")
    if not _VALUE.fullmatch(value):
        yield invalid_value(field, value, _VALUE_WORDS)


def finalizer_name(field: str, name: str) -> Iterator[Problem]:
    """Problems of a finalizer: one that is not the server's own is qualified."""
    yield from qualified_name(field, name)
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        yield invalid_value(field, name, "name is neither a standard finalizer name nor is it fully qualified")


@lru_cache(maxsize=1024)
def _key_problems(key: str) -> tuple[str, ...]:
    prefix, slash, name = key.rpartition("/")
    problems = [f"prefix part {SUBDOMAIN_WORDS}"] if slash and not _SUBDOMAIN.fullmatch(prefix) else []
    if not name:
        problems += ["name part must be non-empty", _NAME_WORDS]
    elif len(name) > _MAX_LABEL:
        problems.append(f"name part must be no more than {_MAX_LABEL} characters")
    elif not _NAME.fullmatch(name):
        problems.append(_NAME_WORDS)
    return tuple(problems)
