"""The effective configuration for reading: a table with origins, TOML that can be used as a file, or JSON."""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from ebbtide.config.loading import Loaded
from ebbtide.config.schema import Leaf, leaves


def as_text(loaded: Loaded) -> str:
    """One line per key: key, value, where the value came from."""
    rows = [(leaf.key, toml_value(_plain(loaded, leaf)), str(loaded.origins[leaf.key])) for leaf in leaves().values()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "".join(f"{key:{widths[0]}}  {value:{widths[1]}}  {origin}\n" for key, value, origin in rows)


def as_toml(loaded: Loaded) -> str:
    """A file that gives the same settings, each key with its origin as a comment."""
    return "\n".join(_tables(loaded))


def _tables(loaded: Loaded) -> Iterator[str]:
    for path, group in groupby(leaves().values(), key=lambda leaf: leaf.path[:-1]):
        yield from (f"[{'.'.join(path)}]",) if path else ()
        for leaf in group:
            yield f"{leaf.path[-1]} = {toml_value(_plain(loaded, leaf))}  # {_one_line(str(loaded.origins[leaf.key]))}"
        yield ""


def as_json(loaded: Loaded) -> str:
    """`settings` nested as in the file, `origins` by dotted key (`source`, `name` where there is one), `warnings`."""
    settings: dict[str, Any] = {}
    for leaf in leaves().values():
        table = settings
        for step in leaf.path[:-1]:
            table = table.setdefault(step, {})
        table[leaf.path[-1]] = _plain(loaded, leaf)
    origins = {
        key: {"source": origin.source} | ({"name": origin.name} if origin.name else {})
        for key, origin in loaded.origins.items()
    }
    document = {"settings": settings, "origins": origins, "warnings": [str(warning) for warning in loaded.warnings]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _plain(loaded: Loaded, leaf: Leaf) -> Any:
    return leaf.plain(leaf.value(loaded.settings))


def toml_value(value: Any) -> str:
    """A plain value (`Leaf.plain`) on one line of TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{_joined(value)}]"
    # Strings of JSON are basic strings of TOML; true, false and numbers are the same in both.
    return json.dumps(value, ensure_ascii=False)


def _joined(items: Iterable[Any]) -> str:
    return ", ".join(toml_value(item) for item in items)


def _one_line(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")
