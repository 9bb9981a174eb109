"""How large a worker's pod is, and how amounts are written on objects. Pure.

Cores and GiB may be fractions in the settings; on objects they are whole millicores and MiB, rounded up, so that what
is asked for is never less than what was set.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """A worker's pod: cores, GiB of memory, and `workers` volumes of `storage_gb` GiB each.

    `node_group` is the group that it is pinned to ("" for none); `selector` a further node selector.
    """

    request_cpu: float
    limit_cpu: float
    request_memory: float
    limit_memory: float
    workers: int
    storage_gb: int
    node_group: str = ""
    selector: tuple[str, str] | None = None

    def resources(self) -> Raw:
        """`resources` of the container that works."""
        return {
            "requests": {"cpu": cores(self.request_cpu), "memory": memory(self.request_memory)},
            "limits": {"cpu": cores(self.limit_cpu), "memory": memory(self.limit_memory)},
        }


def cores(amount: float) -> str:
    """`3.5`, `25`: a quantity of cores, exact to a thousandth."""
    whole, rest = divmod(_up(amount * 1000), 1000)
    return f"{whole}.{rest:03}".rstrip("0").rstrip(".") if rest else str(whole)


def memory(gibibytes: float) -> str:
    """`14Gi`, or `1536Mi` for what is no whole number of GiB."""
    whole, rest = divmod(_up(gibibytes * 1024), 1024)
    return f"{whole * 1024 + rest}Mi" if rest else f"{whole}Gi"


def _up(amount: float) -> int:
    """The next whole number above, where what floating point adds to a whole one does not count."""
    return ceil(round(amount, 6))
