"""What admission would do now: `ebbtide explain pod -f MANIFEST`, and a part of `ebbtide explain pod`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml

from ebbtide.cli.asking import Terminal, plain, print_json
from ebbtide.config import Settings
from ebbtide.errors import UsageError
from ebbtide.kube.client import Client
from webhook.explain import admission_of

Document = dict[str, Any]


async def answer(path: str, form: str, client: Client, settings: Settings) -> int:
    """About each object; in JSON one document, or for several a list of them. Raises UsageError."""
    found = objects(path)
    documents = []
    for number, raw in enumerate(found, 1):
        try:
            documents.append(await admission_of(client, settings, raw))
        except UsageError as error:
            where = path if len(found) == 1 else f"{path}, object {number} of {len(found)}"
            raise UsageError(f"{where}: {error}") from error
    if form == "json":
        print_json(documents[0] if len(documents) == 1 else documents)
        return 0
    for document in documents:
        show(document, Terminal())
    return 0


async def admitted_anew(raw: Mapping[str, Any], client: Client, settings: Settings) -> Document:
    """About a pod that is there, as it is but without its node: what would be done if it were created now.

    Without `subject`. Raises KubeError.
    """
    spec = {key: value for key, value in raw["spec"].items() if key != "nodeName"}
    # The items of a list do not say what they are.
    document = await admission_of(client, settings, {**raw, "apiVersion": "v1", "kind": "Pod", "spec": spec})
    return {key: value for key, value in document.items() if key != "subject"}


def show(document: Document, terminal: Terminal) -> None:
    """In words, and the patch as it is sent."""
    terminal.show(plain(f"{document['subject']}: {document['state']}", "bold"))
    terminal.show(plain(f"  because  {document['reason']}"))
    for warning in document["warnings"]:
        terminal.show(plain(f"  warning  {warning}"))
    for operation in document["patch"]:
        terminal.show(plain(f"  {operation['op']:<7}  {change(operation)}"))


def change(operation: Mapping[str, Any]) -> str:
    """Path and value of an operation of a JSON patch."""
    return f"{operation['path']}  {orjson.dumps(operation['value']).decode()}"


def objects(path: str) -> list[Mapping[str, Any]]:
    """The objects of a file, or with `-` of the standard input; lists are taken apart. Raises UsageError."""
    try:
        content = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        found = [each for each in yaml.safe_load_all(content) if each is not None]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (UnicodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error
    flat = [item for each in found for item in _items(each)]
    if not flat or not all(isinstance(each, dict) for each in flat):
        raise UsageError(f"{path}: there is no object in it")
    return flat


def _items(document: Any) -> list[Any]:
    listed = isinstance(document, dict) and document.get("kind") == "List"
    return list(document.get("items") or ()) if listed else [document]
