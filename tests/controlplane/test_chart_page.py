"""The commands of the page about installing, one after the other, as they stand there."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controlplane.build import tool
from tests.controlplane.desk import gone
from tests.controlplane.everything import everything
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
# What takes more than an API server: containers, and a webhook in one of them. `test_chart` runs the last.
ELSEWHERE = ("docker ", "kubectl -n ebbtide-system logs", "helm test")


def commands() -> list[str]:
    """Each command with the lines that it goes on for."""
    return [re.sub(r"\\\n\s*", "", each).strip() for block in BLOCKS for each in block.split("$ ")[1:]]


@pytest.fixture
async def environ(cluster: World, tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """Helm, kubectl and ebbtide on the path, and a cluster that has room for pods."""
    await cluster.add_nodes("a", 1)
    (tmp_path / "charts").symlink_to(ROOT / "charts")
    (tmp_path / "bin").mkdir()
    for name, target in (
        ("helm", tool("helm4")),
        ("kubectl", Path(cluster.plane.binaries["kubectl"])),
        ("ebbtide", Path(sys.executable).parent / "ebbtide"),
    ):
        (tmp_path / "bin" / name).symlink_to(target)
    found = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "KUBECONFIG": str(cluster.plane.kubeconfig),
        "HELM_CACHE_HOME": str(tmp_path / "cache"),
        "HELM_CONFIG_HOME": str(tmp_path / "config"),
        "HELM_DATA_HOME": str(tmp_path / "data"),
    }
    yield found
    # What a command that failed has left would be in the way of other tests.
    await run("helm uninstall ebbtide --namespace ebbtide-system --ignore-not-found --wait", tmp_path, found)
    await gone(cluster)


async def run(command: str, folder: Path, environ: dict[str, str]) -> tuple[int | None, str]:
    """Exit code and words."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euc", command),
        cwd=folder,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


async def test_the_commands_of_the_page_install_it_and_remove_it(
    cluster: World, environ: dict[str, str], tmp_path: Path
) -> None:
    """Nothing of the product is left at the end, nor the namespace that Helm has made."""
    before = await everything(cluster.plane)
    given = [each for each in commands() if not each.startswith(ELSEWHERE)]
    assert {each.split()[0] for each in given} == {"helm", "kubectl", "ebbtide"}
    for command in given:
        code, said = await run(command, tmp_path, environ)
        assert code == 0, f"{command}\n{said}"
    others = {"configmaps", "serviceaccounts"}

    async def all_gone() -> bool:
        return {name[0] for name in await everything(cluster.plane) - before if name[1] != "kube-node-lease"} <= others

    await cluster.wait_until(all_gone, "nothing is left")
