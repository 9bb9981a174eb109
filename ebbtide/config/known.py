"""Keys of a file against the keys there are: what is unknown is reported with its nearest likeness and left out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ebbtide.config.kinds import Section
from ebbtide.config.problems import Origin, Problem, refused, unknown
from ebbtide.config.schema import keys_of, leaves, row_of, section_of
from ebbtide.config.settings import Settings
from ebbtide.likeness import most_similar, nearest

Location = Sequence[str | int]


def dotted(location: Location) -> str:
    """`worker-scaler.sts-configs[0].request-cpu`; parts that TOML would quote are quoted."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{_bare(step)}" for step in location)
    return "".join(parts).removeprefix(".")


def _bare(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else repr(key)


class KnownKeys:
    """Copies tables without what is unknown; `problems` has what was left out."""

    def __init__(self, origin: Origin) -> None:
        self.problems: list[Problem] = []
        self._origin = origin

    def table(
        self, raw: Mapping[str, Any], model: type[Section] = Settings, location: tuple[str | int, ...] = ()
    ) -> dict[str, Any]:
        fields = keys_of(model)
        kept: dict[str, Any] = {}
        for key, value in raw.items():
            here = (*location, key)
            if key not in fields:
                self.problems.append(unknown(dotted(here), _nearest(key, model, location), self._origin))
            elif section := section_of(fields[key]):
                if isinstance(value, dict):
                    kept[key] = self.table(value, section, here)
                else:
                    self.problems.append(refused(dotted(here), value, "a table", self._origin))
            elif (row := row_of(fields[key])) and isinstance(value, list):
                kept[key] = list(self._rows(value, row, here))
            else:
                kept[key] = value
        return kept

    def _rows(self, rows: list[Any], model: type[Section], location: tuple[str | int, ...]) -> Iterator[Any]:
        for index, row in enumerate(rows):
            yield self.table(row, model, (*location, index)) if isinstance(row, dict) else row


def _nearest(key: str, model: type[Section], location: Location) -> str:
    """One like it in its own table, else in any; where nothing is like it, whatever comes nearest in its own."""
    if here := nearest(key, keys_of(model)):
        return dotted((*location, here))
    elsewhere = {leaf.path[-1]: leaf.key for leaf in leaves().values()}
    return elsewhere.get(nearest(key, elsewhere)) or dotted((*location, most_similar(key, keys_of(model))))
