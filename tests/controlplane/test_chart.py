"""The chart on a real API server: what it installs works with the permissions that it grants, and goes again."""

from pathlib import Path

import pytest

from ebbtide.kube.resources import MUTATING_WEBHOOKS
from tests.controlplane.installation import Release
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane


async def test_installed_by_helm_4_it_serves(cluster: World, tmp_path: Path) -> None:
    """Webhook and reconciler are ready with the ServiceAccounts of the release, and the webhook is registered."""
    release = Release(cluster, tmp_path)
    await cluster.add_nodes("a", 2)
    await release.install()
    try:
        async with release.running("reconciler") as reconciler, release.running("webhook") as webhook:
            for process in (reconciler, webhook):
                await release.ready(process)
            for entry in ("pods", "guarded-pods", "stateful-sets"):
                found = await cluster.client.get(MUTATING_WEBHOOKS, f"{release.fullname}-{entry}")
                assert found["webhooks"][0]["clientConfig"]["caBundle"]
    finally:
        await release.uninstall()
