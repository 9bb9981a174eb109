"""The commands in the notes of a release, one after the other, as whoever has installed it reads them."""

import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from ebbtide.config.admission import Certs
from ebbtide.kube.resources import NAMESPACES, SECRETS
from tests.controlplane.cert_manager import cert_manager
from tests.controlplane.desk import NAMESPACE, Desk, desk
from tests.controlplane.everything import everything
from tests.controlplane.installation import HOST
from tests.controlplane.test_pages import good
from tests.controlplane.world import World
from tests.webhook.stage import Authority

pytestmark = pytest.mark.controlplane

SECRET: Final = "somebody-elses"
MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    "self-managed": {},
    "existing": {"certificates": {"mode": "existing", "existingSecret": SECRET}},
    "cert-manager": {"certificates": {"mode": "cert-manager"}},
}
# What stays where a release has been, beside its namespace: what others have made.
KEPT: Final[Mapping[str, set[str]]] = {
    "self-managed": set(),
    "existing": set(),
    "cert-manager": {"ebbtide-webhook-ca", "ebbtide-webhook-cert"},
}
ROLLED: Final = f"kubectl -n {NAMESPACE} rollout status deployment ebbtide-"


def scripts(notes: str) -> Iterator[str]:
    """Each command on a line; those that use a variable together with the one that sets it."""
    for block in re.findall(r"(?:^ {4}.*\n)+", notes, flags=re.MULTILINE):
        lines = re.sub(r"\\\n\s*", "", re.sub(r"^ {4}", "", block, flags=re.MULTILINE)).splitlines()
        yield from ["\n".join(lines)] if lines[0].startswith("ca=") else lines


@pytest.mark.parametrize("mode", MODES)
async def test_every_command_of_the_notes_does_what_it_is_there_for(mode: str, cluster: World, tmp_path: Path) -> None:
    """Looked at, tested, asked about, guarded and removed again: nothing of the release is left."""
    await cluster.add_nodes("a", 1)
    async with desk(cluster, tmp_path, {"NAMESPACE": cluster.namespace}) as at, _provided(at, mode):
        before = await everything(cluster.plane) - {("namespaces", "", NAMESPACE)}
        values = {"webhook": {"url": f"https://{HOST}:{at.release.port}/mutate"}, **MODES[mode]}
        (tmp_path / "values.json").write_text(json.dumps(values), encoding="utf-8")
        await at.types(f"helm install ebbtide charts/ebbtide -n {NAMESPACE} --create-namespace --values values.json")
        typed = list(scripts((await at.types(f"helm get notes ebbtide -n {NAMESPACE}")).out))
        assert [text.split()[0] for text in typed].count("ebbtide") == 3
        for text in typed:
            await _follow(at, text)
            if mode == "cert-manager" and text == f"{ROLLED}webhook":
                # A runbook asks for it, which nobody can where there is no cert-manager.
                await at.types(f"kubectl -n {NAMESPACE} describe certificate")
        assert typed[-1].startswith("helm uninstall")

        async def removed() -> bool:
            left = {name[2] for name in await everything(cluster.plane) - before}
            return {name for name in left if "ebbtide" in name} == {NAMESPACE, *KEPT[mode]}

        await cluster.wait_until(removed, "nothing of the release is left")


async def _follow(at: Desk, text: str) -> None:
    """What takes containers is done by the programs that they would run."""
    if text.startswith("helm test"):
        await at.tests(text)
    elif " exec " in text:
        await at.enters(text)
    elif text.endswith(" --watch"):
        await at.watches(text)
    else:
        await at.types(text, good=good(text))
    if text == f"{ROLLED}reconciler":
        await at.restart()
    elif text == f"{ROLLED}webhook":
        await at.admit()
    elif text.endswith("--replicas=0"):
        await at.stop()


@asynccontextmanager
async def _provided(at: Desk, mode: str) -> AsyncIterator[None]:
    """Who makes the certificate, where the release does not."""
    if mode == "cert-manager":
        async with cert_manager(at.release, at.folder):
            yield
        return
    if mode == "existing":
        Authority(at.folder, Certs(extra_sans=(HOST,))).issue()
        data = {name: b64encode((at.folder / name).read_bytes()).decode() for name in ("tls.crt", "tls.key", "ca.crt")}
        body = {"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "data": data}
        await at.cluster.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await at.cluster.client.create(SECRETS, body, namespace=NAMESPACE)
    yield
