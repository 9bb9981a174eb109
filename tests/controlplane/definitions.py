"""Kinds that other products bring to a cluster, whatever is in their objects."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ebbtide.kube.resources import Resource
from tests.controlplane.world import World

DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@asynccontextmanager
async def defined(cluster: World, *kinds: Resource) -> AsyncIterator[None]:
    """They are served until this ends, and their objects go with them."""
    for kind in kinds:
        await cluster.client.create(DEFINITIONS, _definition(kind))

    async def served() -> bool:
        return all([(await cluster.client.request("GET", kind.path())).status == 200 for kind in kinds])

    await cluster.wait_until(served, "the kinds are served")
    try:
        yield
    finally:
        for kind in kinds:
            await cluster.client.delete(DEFINITIONS, f"{kind.plural}.{kind.group}")


def _definition(kind: Resource) -> dict[str, object]:
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": _ANYTHING}}
    names = {"plural": kind.plural, "kind": kind.kind, "singular": kind.kind.lower()}
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{kind.plural}.{kind.group}"}, "spec": spec}
