"""JSON patches (RFC 6902) built by hand from the raw object that they are for.

Only `add`, and `replace` of a value that was seen: a `test` or `remove` that fails would be an error for the user even
under `failurePolicy: Ignore`. Nothing of the object is ever written back, so what is not ours stays byte for byte.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

Path = tuple[str | int, ...]
Operation = dict[str, Any]


@lru_cache(maxsize=1024)
def pointer(path: Path) -> str:
    """The JSON pointer (RFC 6901) of a path: `~` is escaped first, then `/`."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


class Draft:
    """The operations for one object, in order. Raises TypeError when the object is not of the shape that a path says.

    A parent that is missing or null is added once, at the highest such level, with all that is to be below it.
    `changes` counts what was asked for, which can be more than there are operations.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._made: dict[Path, dict[str, Any]] = {}
        self.operations: list[Operation] = []
        self.changes = 0

    def put(self, path: Path, value: Any) -> None:
        """Sets the member of an object, whether it is there or not."""
        self.changes += 1
        there = self._there(path)
        if there == len(path):
            self._write("replace", pointer(path), value)
        elif there == len(path) - 1:
            self._write("add", pointer(path), value)
        else:
            self._grow(path[: there + 1], path[there + 1 :], value)

    def append(self, path: Path, value: Any) -> None:
        """Adds to the end of the list at `path`, which need not be there."""
        if self._there(path) < len(path):
            self.put(path, [value])
        elif isinstance(_at(self._root, path), list):
            self.changes += 1
            self._write("add", pointer(path) + "/-", value)
        else:
            raise TypeError(f"{pointer(path)} is no list")

    def _there(self, path: Path) -> int:
        """How many steps of the path lead to something else than nothing or null."""
        here: Any = self._root
        for depth, step in enumerate(path):
            here = here.get(step) if type(here) is dict else _entry(here, step, path[:depth])
            if here is None:
                return depth
        return len(path)

    def _grow(self, top: Path, below: Path, value: Any) -> None:
        made = self._made.get(top)
        if made is None:
            made = self._made[top] = {}
            self._write("add", pointer(top), made)
        for step in below[:-1]:
            made = made.setdefault(str(step), {})
        made[str(below[-1])] = value

    def _write(self, operation: str, where: str, value: Any) -> None:
        self.operations.append({"op": operation, "path": where, "value": value})


def _at(root: Any, path: Path) -> Any:
    for depth, step in enumerate(path):
        root = root.get(step) if type(root) is dict else _entry(root, step, path[:depth])
    return root


def _entry(parent: Any, step: str | int, where: Path) -> Any:
    """The entry of a list; the API server sends objects and lists where the API has them, or we misread it."""
    if isinstance(parent, list) and isinstance(step, int):
        return parent[step]
    raise TypeError(f"{pointer(where) or 'the object'} has no {step!r}, it is {type(parent).__name__}")
