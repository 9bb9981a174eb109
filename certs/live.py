"""MutatingWebhookConfiguration → frozen facts: the caBundle of each of its entries. Pure."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One webhook of a configuration; `bundle` is what its `caBundle` holds, decoded, empty without one."""

    name: str
    bundle: bytes


@dataclass(frozen=True, slots=True)
class Configuration:
    """One MutatingWebhookConfiguration."""

    name: str
    uid: str
    resource_version: int = field(compare=False)
    entries: tuple[Entry, ...]

    @property
    def key(self) -> str:
        return self.name

    def lacks(self, bundle: bytes) -> bool:
        """Whether some entry has another bundle than this one."""
        return any(entry.bundle != bundle for entry in self.entries)


def configuration(raw: Mapping[str, Any]) -> Configuration:
    """Reads a MutatingWebhookConfiguration object. Raises KeyError for one that makes no sense."""
    metadata = raw["metadata"]
    return Configuration(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        entries=tuple(Entry(each["name"], _bundle(each)) for each in raw.get("webhooks") or ()),
    )


def bundles(configurations: Iterable[Configuration]) -> tuple[bytes, ...]:
    """What the caBundle of every entry of all configurations holds."""
    return tuple(entry.bundle for each in configurations for entry in each.entries)


def _bundle(entry: Mapping[str, Any]) -> bytes:
    text = (entry.get("clientConfig") or {}).get("caBundle") or ""
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        return str(text).encode()
