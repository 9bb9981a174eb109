"""Whether a kubeconfig is one: its values are looked at before kubernetes-asyncio stumbles over them.

Only what every context of every cluster has to be like is judged here; which credentials there are, and how they are
come by, is the library's business.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from ebbtide.errors import UsageError

_LISTS: Final = {"contexts": "context", "clusters": "cluster", "users": "user"}
_FILES: Final = ("client-certificate", "client-key", "tokenFile")
_TEXTS: Final = ("token", *_FILES, "client-certificate-data", "client-key-data")


def check(paths: Iterable[Path], context: str | None) -> None:
    """Raises UsageError, naming file and field, where `context` (None: the current one) of the merged files cannot be
    used. Of entries of one name the first counts, of current contexts the last, as in kubectl."""
    given = tuple(paths)
    found = [path for path in (path.expanduser() for path in given) if path.exists()]
    if not found:
        raise UsageError(f"kubeconfig {_joined(given)}: no such file")
    current: Any = None
    entries: dict[str, dict[str, tuple[Path, Mapping[str, Any]]]] = {name: {} for name in _LISTS}
    for path in found:
        content = _mapping(path)
        current = content.get("current-context", current)
        for list_name, field in _LISTS.items():
            for name, value in _named(path, content, list_name, field):
                entries[list_name].setdefault(name, (path, value))
    chosen = _chosen(_joined(found), context, current, entries["contexts"])
    where, value = entries["contexts"][chosen]
    for list_name, field in (("clusters", "cluster"), ("users", "user")):
        named = value.get(field)
        if not isinstance(named, str) or named not in entries[list_name]:
            problem = f"names the {field} {named!r}, which is not there" if named else f"names no {field}"
            raise _unusable(where, f"context {chosen} {problem}")
    _check_cluster(value["cluster"], *entries["clusters"][value["cluster"]])
    _check_user(value["user"], *entries["users"][value["user"]])


def _mapping(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise _unusable(path, f"is not YAML{_place(error)}") from error
    if content is None:
        raise _unusable(path, "is empty")
    if not isinstance(content, dict):
        raise _unusable(path, "is no mapping with clusters, users and contexts")
    return content


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, "is no text in UTF-8") from error


def _place(error: yaml.YAMLError) -> str:
    """The line alone: the parser's own words quote the file, and there are secrets in it."""
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f": line {mark.line + 1}"


def _named(path: Path, content: Mapping[str, Any], list_name: str, field: str) -> Iterator[tuple[str, Any]]:
    """The entries of one list, each with what stands under `field`."""
    entries = content.get(list_name) or []
    if not isinstance(entries, list):
        raise _unusable(path, f"{list_name} is no list")
    for number, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise _unusable(path, f"{list_name}[{number}] has no name")
        value = entry.get(field) or {}
        if not isinstance(value, dict):
            raise _unusable(path, f"{field} {name} is no mapping")
        yield name, value


def _chosen(files: str, context: str | None, current: Any, contexts: Mapping[str, Any]) -> str:
    has = f"its contexts: {', '.join(sorted(contexts))}" if contexts else "it has no contexts"
    if context and context not in contexts:
        raise UsageError(f"kubeconfig {files}: there is no context {context}; {has}")
    if not context and not current:
        raise UsageError(f"kubeconfig {files}: current-context is not set; give --context ({has})")
    if not context and (not isinstance(current, str) or current not in contexts):
        raise UsageError(f"kubeconfig {files}: current-context names {current!r}, which is not there; {has}")
    return context or str(current)


def _check_cluster(name: str, path: Path, cluster: Mapping[str, Any]) -> None:
    server = cluster.get("server")
    if not isinstance(server, str) or not _is_url(server):
        raise _unusable(path, f"server of cluster {name} is {_shown(server)}, and no http:// or https:// URL")
    for key in ("certificate-authority", "certificate-authority-data", "proxy-url", "tls-server-name"):
        _is_text(path, f"{key} of cluster {name}", cluster.get(key))
    if (proxy := cluster.get("proxy-url")) and not _is_url(proxy):
        raise _unusable(path, f"proxy-url of cluster {name} is {_shown(proxy)}, and no http:// or https:// URL")
    if not cluster.get("certificate-authority-data"):
        _is_there(path, f"certificate-authority of cluster {name}", cluster.get("certificate-authority"))


def _check_user(name: str, path: Path, user: Mapping[str, Any]) -> None:
    for key in _TEXTS:
        _is_text(path, f"{key} of user {name}", user.get(key))
    for key in _FILES:
        if not user.get("token" if key == "tokenFile" else f"{key}-data"):
            _is_there(path, f"{key} of user {name}", user.get(key))
    if token := user.get("token"):
        _is_one_line(path, f"token of user {name}", token)
    elif file := user.get("tokenFile"):
        _is_one_line(path, f"tokenFile of user {name}", _text(path.parent / file))


def _is_text(path: Path, what: str, value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise _unusable(path, f"{what} is no text")


def _is_one_line(path: Path, what: str, token: str) -> None:
    """It goes into a header."""
    if not token.strip().isprintable():
        raise _unusable(path, f"{what} has a line break or another control character in it")


def _is_there(path: Path, what: str, named: str | None) -> None:
    """Names are relative to the file that has them."""
    if named and not (path.parent / named).is_file():
        raise _unusable(path, f"{what} is {named}: no such file")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _joined(paths: Iterable[Path]) -> str:
    return os.pathsep.join(map(str, paths))


def _shown(url: Any) -> str:
    """Without the user and password that may stand in it."""
    if not isinstance(url, str):
        return "not set" if url is None else repr(url)
    return repr(re.sub(r"(?s)^(\w+://)?.*@", r"\1…@", url))


def _unusable(path: Path, problem: str) -> UsageError:
    return UsageError(f"kubeconfig {path}: {problem}")
