"""Kinds that other products bring to a cluster."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import Resource
from tests.controlplane.world import Object, World

DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@asynccontextmanager
async def defined(cluster: World, *kinds: Resource) -> AsyncIterator[None]:
    """They are served until this ends, whatever is in their objects, which go with them."""
    async with installed(cluster, [_definition(kind) for kind in kinds]):
        yield


@asynccontextmanager
async def installed(cluster: World, definitions: Sequence[Object]) -> AsyncIterator[None]:
    """Their kinds are served until this ends, and their objects go with them."""
    for definition in definitions:
        await cluster.client.create(DEFINITIONS, definition)
    names = [definition["metadata"]["name"] for definition in definitions]
    for name in names:
        await cluster.wait_until(partial(_served, cluster, name), f"{name} is served")
    try:
        yield
    finally:
        for name in names:
            await cluster.client.delete(DEFINITIONS, name)
        for name in names:
            await cluster.wait_until(partial(_gone, cluster, name), f"{name} is gone")


async def _served(cluster: World, name: str) -> bool:
    spec = (await cluster.client.get(DEFINITIONS, name))["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    return (await cluster.client.request("GET", path)).status == 200


async def _gone(cluster: World, name: str) -> bool:
    try:
        await cluster.client.get(DEFINITIONS, name)
    except NotFound:
        return True
    return False


def _definition(kind: Resource) -> Object:
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": _ANYTHING}}
    names = {"plural": kind.plural, "kind": kind.kind, "singular": kind.kind.lower()}
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{kind.plural}.{kind.group}"}, "spec": spec}
