"""Helm, 4 and 3, and what it makes of the chart."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from tests.controlplane.build import VERSION, tool

CHART: Final = Path(__file__).resolve().parents[2] / "charts" / "ebbtide"
NAMESPACE: Final = "ebbtide-system"
# Without a cluster a Helm that was not built by its makers takes another version for granted than they do.
_KUBERNETES: Final = f"--kube-version={VERSION}"
Object = dict[str, Any]
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Said:
    """How Helm ended, and its two outputs."""

    code: int
    out: str
    err: str


class Helm:
    """One version of Helm (`helm4`, `helm3`) with a home of its own in `folder`, for the cluster of `kubeconfig`."""

    def __init__(self, version: str, folder: Path, kubeconfig: Path | None = None) -> None:
        self.version = version
        self._command = tool(version)
        self._environ = {**os.environ, "HELM_CACHE_HOME": str(folder / "cache"), "HELM_CONFIG_HOME": str(folder)}
        self._environ |= {"HELM_DATA_HOME": str(folder / "data"), "KUBECONFIG": str(kubeconfig or folder / "none")}

    async def run(self, *words: str, values: Values | None = None) -> Said:
        """Runs it to its end; `values` are those of a values file."""
        given = ["--values", "-"] if values is not None else []
        process = await asyncio.create_subprocess_exec(
            self._command,
            *words,
            *given,
            env=self._environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(orjson.dumps(values or {}))
        assert process.returncode is not None
        return Said(process.returncode, out.decode(), err.decode())

    async def template(self, values: Values | None = None, *words: str, namespace: str = NAMESPACE) -> Said:
        """What would be installed, without a cluster."""
        place = ("--namespace", namespace, _KUBERNETES)
        return await self.run("template", "ebbtide", str(CHART), *place, *words, values=values or {})

    async def render(self, values: Values | None = None, *words: str, namespace: str = NAMESPACE) -> list[Object]:
        """The objects that would be installed."""
        said = await self.template(values, *words, namespace=namespace)
        assert said.code == 0, said.err
        return [each for each in yaml.safe_load_all(said.out) if each]


_known: Final[dict[bytes, list[Object]]] = {}


async def rendered(folder: Path, values: Values) -> list[Object]:
    """The objects that would be installed; the chart is rendered once in a process for the same values."""
    key = orjson.dumps(values, option=orjson.OPT_SORT_KEYS)
    if key not in _known:
        _known[key] = await Helm("helm4", folder).render(values)
    return _known[key]


def only(objects: list[Object], kind: str, name: str = "") -> Object:
    """The one object of that kind, and of that name where one is given."""
    found = [each for each in objects if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]
