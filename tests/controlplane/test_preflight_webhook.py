"""`ebbtide preflight` about the webhook of an installed chart: what it says keeps the API server from it does."""

import signal
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest

from certs.issue import new_authority
from certs.spec import spec_of
from ebbtide.clock import SystemClock
from ebbtide.config.admission import Certs
from ebbtide.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, SERVICES, Resource
from ebbtide.vocabulary import PREVENT_TAINT_KEY
from tests.controlplane.command import Said, ebbtide
from tests.controlplane.installation import Release, beyond_this_machine
from tests.controlplane.processes import free_port
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import Object, World

pytestmark = pytest.mark.controlplane

# The API server calls a Service at its address, to which nothing carries connections here: so it is one of this
# machine, of a range of its own, at which the webhook listens.
ADDRESS: Final = "127.96.0.10"
RANGE: Final = "127.96.0.0/24"
SERVICE_CIDRS: Final = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", namespaced=False)
CHECKS: Final = ("webhook", "webhook-authority", "webhook-service", "webhook-answer")
ALL_PASS: Final[Mapping[str, str]] = dict.fromkeys(CHECKS, "pass")
# What the page says that the command reads, but for Secrets and the right to create a pod.
READS: Final = [
    {"apiGroups": [group], "resources": resources, "verbs": [verb]}
    for group, resources, verb in (
        ("", ["nodes", "namespaces", "pods", "configmaps"], "list"),
        ("apps", ["deployments", "statefulsets", "daemonsets"], "list"),
        ("admissionregistration.k8s.io", ["mutatingwebhookconfigurations"], "list"),
        ("", ["services"], "get"),
        ("discovery.k8s.io", ["endpointslices"], "list"),
    )
]


class Installed(Release):
    """One that is registered by its Service, which leads here; `port` is the Service's, and the webhook's."""

    @property
    def webhook(self) -> str:
        return f"{self.fullname}-webhook"

    async def registrations(self) -> list[Object]:
        selector = f"app.kubernetes.io/instance={self.name}"
        found, _ = await self.cluster.client.list_all(MUTATING_WEBHOOKS, label_selector=selector)
        return found

    async def register(self, edit: Callable[[Object], None]) -> None:
        """Edits every entry, as somebody does by hand."""
        for found in await self.registrations():
            entries = deepcopy(found["webhooks"])
            for entry in entries:
                edit(entry)
            await self.cluster.client.patch_merge(MUTATING_WEBHOOKS, found["metadata"]["name"], {"webhooks": entries})

    async def lead_here(self) -> None:
        """Gives the Service an address and a port of this machine: any user may listen there."""
        client, namespace = self.cluster.client, self.namespace
        await self.cluster.install(SERVICE_CIDRS, {"metadata": {"name": self.cluster.name}, "spec": {"cidrs": [RANGE]}})

        async def given_out() -> bool:
            found = await client.get(SERVICE_CIDRS, self.cluster.name)
            return any(each["status"] == "True" for each in found.get("status", {}).get("conditions", ()))

        await self.cluster.wait_until(given_out, f"addresses of {RANGE} may be had")
        found = await client.get(SERVICES, self.webhook, namespace=namespace)
        metadata = {key: found["metadata"][key] for key in ("name", "labels", "annotations")}
        [port] = found["spec"]["ports"]
        spec = {"selector": found["spec"]["selector"], "clusterIP": ADDRESS, "ports": [{**port, "port": self.port}]}
        await client.delete(SERVICES, self.webhook, namespace=namespace)
        await client.create(SERVICES, {"metadata": metadata, "spec": spec}, namespace=namespace)
        await self.register(lambda entry: entry["clientConfig"]["service"].update(port=self.port))


@asynccontextmanager
async def installed(cluster: World, folder: Path) -> AsyncIterator[Installed]:
    release = Installed(cluster, folder, port=free_port())
    async with release.home():
        try:
            await release.install(webhook={"url": ""})
            await release.lead_here()
            yield release
        finally:
            await release.uninstall()


class Looking:
    """The command, with the release's own configuration."""

    def __init__(self, folder: Path, release: Installed, proxy: FaultProxy, text: str) -> None:
        self._folder, self._release, self._proxy, self._text = folder, release, proxy, text

    async def said(self, token: str = "") -> Said:
        words = ("preflight", "--output", "json")
        return await ebbtide(self._folder, self._release.cluster, self._proxy, *words, text=self._text, token=token)

    async def until(self, words: str, **changed: str) -> Said:
        """What it says once it finds these words and that, and else nothing wrong: the API server and controllers may
        be a moment late. Names of `changed` are those of checks, without `webhook-`."""
        expected = {**ALL_PASS, **{f"webhook-{check}": status for check, status in changed.items()}}

        async def so() -> Said | None:
            said = await self.said()
            return said if statuses(said) == expected and words in said.out else None

        found = await self._release.cluster.wait_until(so, f"what is found is {expected}, with {words!r}")
        assert found is not None
        return found


async def test_what_keeps_the_api_server_from_the_webhook_is_named(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """Nothing; another CA in its registrations; a webhook that hangs; no pod behind the Service. For that a pod is
    created by dry run only, and whoever may not do that is told everything else."""
    groups: list[dict[str, Any]] = [{"eks.amazonaws.com/nodegroup": f"{cluster.name}-{zone}"} for zone in "ab"]
    nodes = [node for zone, own in zip("ab", groups, strict=True) for node in await cluster.add_nodes(zone, 1, **own)]
    await beyond_this_machine(cluster, nodes)
    async with installed(cluster, tmp_path) as release:
        look = Looking(tmp_path / "desk", release, proxy, await release.configuration())
        async with release.running("webhook", EBBTIDE__WEBHOOK__LISTEN=f"{ADDRESS}:{release.port}") as webhook:
            # It makes the certificates, and publishes their CA; later nobody is to put right what is broken here.
            async with release.running("reconciler") as reconciler:
                await release.ready(reconciler)
                await release.ready(webhook)
            await cluster.add_taint(nodes[0], {"key": PREVENT_TAINT_KEY, "value": "1", "effect": "NoSchedule"})
            said = await look.until("came back as it has to: blocked for it: a")
            assert said.code == 0, said.out
            assert seen(said, "webhook-service") == f"{behind(release)}: 2 of 2 endpoints ready"
            await somebody_who_reads(look, cluster, proxy)

            await release.register(lambda entry: entry.update(failurePolicy="Fail", timeoutSeconds=1))
            webhook.process.send_signal(signal.SIGSTOP)
            try:
                said = await look.until("context deadline exceeded", answer="fail")
            finally:
                webhook.process.send_signal(signal.SIGCONT)
            assert said.code == 1
            assert "is refused: " in seen(said, "webhook-answer")
            assert 'failed calling webhook "pods.ebbtide.dev"' in seen(said, "webhook-answer")

            await release.register(lambda entry: entry.update(failurePolicy="Ignore"))
            await release.register(lambda entry: entry["clientConfig"].update(caBundle=another_authority()))
            said = await look.until("came back otherwise than it has to", authority="fail", answer="fail")
            assert "does not trust the CA of Secret" in seen(said, "webhook-authority")
            assert "(blocked for it: a" in seen(said, "webhook-answer")

        await release.register(lambda entry: entry.update(failurePolicy="Fail"))
        none = {"spec": {"replicas": 0}}
        await cluster.client.patch_merge(DEPLOYMENTS, release.webhook, none, namespace=release.namespace)
        said = await look.until("connection refused", authority="fail", service="fail", answer="fail")
        assert seen(said, "webhook-service") == f"{behind(release)}: no pod serves it"
    assert await cluster.pods() == []
    made = [each.path for each in proxy.requests if each.method == "POST" and "accessreviews" not in each.path]
    assert {path.partition("?")[0] for path in made} == {f"/api/v1/namespaces/{cluster.namespace}/pods"}


async def somebody_who_reads(look: Looking, cluster: World, proxy: FaultProxy) -> None:
    for method, path in (("GET", "/secrets/"), ("POST", r"/pods\?")):
        proxy.expect_forbidden(method, path)
    said = await look.said(await cluster.account("reader", READS))
    assert statuses(said) == {**ALL_PASS, "webhook-authority": "unknown", "webhook-answer": "unknown"}
    told = [check["name"] for check in said.document["checks"] if check["status"] == "unknown"]
    assert [name for name in told if name not in CHECKS] == []


def another_authority() -> str:
    """The bundle of a CA that nobody's certificate is of."""
    made = new_authority(spec_of(Certs(), "elsewhere"), SystemClock().now())
    return b64encode(made.certificate.pem).decode()


def statuses(said: Said) -> dict[str, str]:
    """Those of the checks of the webhook; of one with several findings all that there are."""
    found: dict[str, set[str]] = {}
    for check in said.document["checks"]:
        if check["name"] in CHECKS:
            found.setdefault(check["name"], set()).add(check["status"])
    return {name: " ".join(sorted(each)) for name, each in found.items()}


def seen(said: Said, name: str) -> str:
    """What the findings of that check say."""
    return "; ".join(check["seen"] for check in said.document["checks"] if check["name"] == name)


def behind(release: Installed) -> str:
    return f"Service {release.namespace}/{release.webhook}, port {release.port}"
