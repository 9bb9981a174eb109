"""A small admission webhook on loopback, which real API servers call: it puts the exclusion into pods."""

import asyncio
import base64
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Around, Rules, exclude
from ebbtide.exclusion.pod import pod_traits
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import MUTATING_WEBHOOKS, NODES
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, NodeFacts, node_facts
from tests.controlplane.world import World
from tests.ebbtide.exclusion.injector import injected

_LABELS = CellLabels()
# The world's own, so that tests that share the servers do not take each other's webhook for theirs.
_SELECTED = "tests.ebbtide/webhook"


def selector(cluster: World) -> str:
    """What `[certs] webhook-configuration-selector` has to be in this world."""
    return f"{_SELECTED}={cluster.name}"


class Injector:
    """Answers reviews; `idle` makes it leave every pod as it is."""

    def __init__(self, cluster: World) -> None:
        self.idle = False
        self.reviews = 0
        self._nodes: Store[NodeFacts] = Store(lambda raw: node_facts(raw, _LABELS))
        self._watch = Reflector(cluster.client, NODES, self._nodes)
        self._zones = BlockedZones(self._nodes, vocabulary.PREVENT_TAINT_KEY)
        self.follow = self._watch.run

    async def ready(self) -> None:
        await self._nodes.wait_synced()

    async def mutate(self, request: web.Request) -> web.Response:
        review = orjson.loads(await request.read())
        self.reviews += 1
        asked = review["request"]
        answer: dict[str, Any] = {"uid": asked["uid"], "allowed": True}
        operations = [] if self.idle else self._operations(asked["object"], asked["namespace"])
        if operations:
            answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}
        body = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    def _operations(self, pod: Mapping[str, Any], namespace: str) -> list[dict[str, Any]]:
        exclusion = exclude(pod_traits(pod, _LABELS, namespace), self._zones.groups, Around(), Rules())
        changed = injected(dict(pod), exclusion)
        if not exclusion.zones:
            return []
        return [
            {"op": "add", "path": "/metadata/annotations", "value": changed["metadata"]["annotations"]},
            {"op": "add", "path": "/spec/affinity", "value": changed["spec"]["affinity"]},
        ]


@asynccontextmanager
async def serving(cluster: World) -> AsyncIterator[tuple[Injector, str]]:
    """The webhook, and its URL; nobody calls it before it is registered."""
    injector = Injector(cluster)
    app = web.Application(client_max_size=8 << 20)
    app.router.add_post("/mutate", injector.mutate)
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(cluster.plane.pki.certificate, cluster.plane.pki.key)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    following = asyncio.ensure_future(injector.follow())
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust).start()
        await injector.ready()
        yield injector, f"https://127.0.0.1:{runner.addresses[0][1]}/mutate"
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await runner.cleanup()


@asynccontextmanager
async def registered(cluster: World, url: str) -> AsyncIterator[None]:
    """The API server calls that URL for new pods of the world's namespace, for as long as this lasts."""
    name = f"{cluster.name}-{secrets.token_hex(2)}"
    await cluster.client.create(MUTATING_WEBHOOKS, _configuration(cluster, name, url))
    try:
        yield
    finally:
        await cluster.client.delete(MUTATING_WEBHOOKS, name)


def _configuration(cluster: World, name: str, url: str) -> dict[str, Any]:
    entry = {
        "name": "pods.tests.ebbtide.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(cluster.plane.ca_file.read_bytes()).decode()},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    }
    return {"metadata": {"name": name, "labels": {_SELECTED: cluster.name}}, "webhooks": [entry]}
