"""What could not be looked at: the checks that need it say so, and all others go on."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from ebbtide.kube.errors import KubeError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unread:
    """What could not be looked at, and why."""

    reason: str


async def attempted(what: Awaitable[T]) -> T | Unread:
    """The result, or why the API server did not give it."""
    try:
        return await what
    except KubeError as error:
        return Unread(str(error))
