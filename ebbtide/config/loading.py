"""From file and environment to settings: every problem found in one go, every value with its origin."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ebbtide.config import environment, rules, sizes, source
from ebbtide.config.known import KnownKeys, Location, dotted
from ebbtide.config.problems import DEFAULT, ConfigurationError, Origin, Problem, refused
from ebbtide.config.schema import Leaf, allowed, field_at, leaves
from ebbtide.config.settings import DEFAULT_NAMESPACE, Settings


@dataclass(frozen=True)
class Loaded:
    """Settings that may be used. `origins` has every key; `warnings` is what should be told, though nothing fails."""

    settings: Settings
    origins: Mapping[str, Origin]
    warnings: tuple[Problem, ...]


def load(path: Path | None, environ: Mapping[str, str]) -> Loaded:
    """The settings from a file (None: the defaults) and the environment's overrides.

    Raises UsageError when the file cannot be read or is not TOML, ConfigurationError with all problems otherwise.
    """
    draft = _Draft()
    if path is not None:
        draft.add_file(path)
    draft.add_environment(environ)
    draft.place(environ.get("POD_NAMESPACE", ""))
    settings = draft.settings()
    draft.problems.extend(rules.broken(settings, draft.origins, draft.refused))
    if draft.problems:
        raise ConfigurationError(draft.problems)
    fitted = sizes.fit(settings, draft.origins)
    return Loaded(fitted.settings, fitted.origins, (*rules.doubtful(settings, draft.origins), *fitted.warnings))


class _Draft:
    """Raw values as they come together, before they are settings."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.refused: set[str] = set()
        self.origins = dict.fromkeys(leaves(), DEFAULT)
        self._tree: dict[str, Any] = {}

    def add_file(self, path: Path) -> None:
        origin = Origin("file", str(path))
        known = KnownKeys(origin)
        self._tree = known.table(source.read(path))
        self.problems.extend(known.problems)
        self.origins.update((key, origin) for key, leaf in leaves().items() if _present(self._tree, leaf))

    def add_environment(self, environ: Mapping[str, str]) -> None:
        for override in environment.overrides(environ):
            if isinstance(override, Problem):
                self.problems.append(override)
            else:
                self._put(override.leaf, override.value, override.origin)

    def place(self, pod_namespace: str) -> None:
        """Settles the namespace where nobody has named one."""
        if self._tree.get("namespace", "") == "":
            origin = Origin("environment", "POD_NAMESPACE") if pod_namespace else DEFAULT
            self._put(leaves()["namespace"], pod_namespace or DEFAULT_NAMESPACE, origin)

    def settings(self) -> Settings:
        """Judges every value by itself; refused ones are reported and take their default, so that the rest is judged
        too."""
        try:
            return Settings.model_validate(self._tree)
        except ValidationError as invalid:
            for error in invalid.errors(include_url=False):
                self._refuse(error["loc"], error["input"], missing=error["type"] == "missing")
        return Settings.model_validate(self._tree)

    def _refuse(self, location: Location, value: Any, *, missing: bool) -> None:
        leaf = next(leaf for leaf in leaves().values() if leaf.path == tuple(location[: len(leaf.path)]))
        key, wanted, origin = dotted(location), allowed(field_at(location)), self.origins[leaf.key]
        problem = Problem(key, f" is missing: {wanted}", origin) if missing else refused(key, value, wanted, origin)
        self.problems.append(problem)
        self.refused.add(leaf.key)
        _table(self._tree, leaf).pop(leaf.path[-1], None)

    def _put(self, leaf: Leaf, value: Any, origin: Origin) -> None:
        _table(self._tree, leaf)[leaf.path[-1]] = value
        self.origins[leaf.key] = origin


def _table(tree: dict[str, Any], leaf: Leaf) -> dict[str, Any]:
    for step in leaf.path[:-1]:
        tree = tree.setdefault(step, {})
    return tree


def _present(tree: dict[str, Any], leaf: Leaf) -> bool:
    return leaf.path[-1] in _table(tree, leaf)
