"""Paths of the API: which object, or what else, a URL means."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from ebbtide.sim.kinds import KINDS, NAMESPACES, Kind

_BY_PATH: Final = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
# Subresources that are served, beside `status` of the kinds that have one.
_SUBRESOURCES: Final = {"pods": frozenset({"eviction", "binding"})}


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about. `name` is empty for a collection, `namespace` for all namespaces or none."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@lru_cache(maxsize=4096)
def target(path: str) -> Target | None:
    """Reads `/api/v1/namespaces/default/pods/a/eviction`; None for a path that names nothing that is served."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    return _inside(group, version, rest)


def _inside(group: str, version: str, rest: list[str]) -> Target | None:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and (group, version, rest[2]) in _BY_PATH:
        namespace, rest = rest[1], rest[2:]
    kind = _BY_PATH.get((group, version, rest[0]))
    if kind is None or len(rest) > 3:
        return None
    if bool(namespace) is not kind.namespaced and (namespace or len(rest) > 1):
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and not _served(kind, subresource):
        return None
    return Target(kind, namespace, name, subresource)


def _served(kind: Kind, subresource: str) -> bool:
    if subresource == "status":
        return kind.has_status
    if kind is NAMESPACES:
        return subresource == "finalize"
    return subresource in _SUBRESOURCES.get(kind.plural, ())
