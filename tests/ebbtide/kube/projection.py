"""A small projection for tests of stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Small:
    """Name, UID and a note; the version takes no part in comparisons."""

    key: str
    uid: str
    resource_version: int = field(compare=False)
    note: str


def small(raw: Mapping[str, Any]) -> Small:
    metadata = raw["metadata"]
    return Small(metadata["name"], metadata["uid"], int(metadata["resourceVersion"]), metadata["annotations"]["note"])
