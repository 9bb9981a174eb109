"""Somebody at a desk who types what the pages say: a shell with the tools that they name, on a cluster of their own.

What is installed by these commands is the release `ebbtide` in `ebbtide-system`, as the pages call it. No container
runs: the reconciler that is in its pods is run as a process at the address of such a pod, so that the API server's
proxy leads to it. Commands that only a kubelet could answer are aimed at the same pods all the same.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import NAMESPACES
from tests.controlplane.build import tool
from tests.controlplane.installation import Release
from tests.controlplane.program import REPOSITORY, probe
from tests.controlplane.proxy import watched
from tests.controlplane.world import PATIENCE, World

NAMESPACE: Final = "ebbtide-system"
# Words in capitals that stand for a name of the reader's.
_PLACEHOLDER: Final = re.compile(r"\b(GROUP/ZONE|NAMESPACE|GROUP|ZONE|NODE|POD|ID)\b")
# What a kubelet, or the metrics server, answers: its target is looked up instead.
_KUBELET: Final = re.compile(r"^(kubectl(?: -n \S+)?) (?:logs|port-forward|top(?= pods)) (.+?)(?: --\S+| \d+)*$")
# What kubectl says where nothing is selected; its exit code is 0.
_NOTHING: Final = "No resources found"
_EXEC: Final = re.compile(r"^kubectl -n \S+ exec deployment/ebbtide-(\w+) -- ebbtide (.+)$")
_INTERRUPTED: Final = 130
_PORT: Final = 8080


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it has said."""

    code: int
    out: str


class Desk:
    """Types commands; `names` stand for the placeholders."""

    def __init__(self, cluster: World, folder: Path, names: Mapping[str, str]) -> None:
        self.cluster = cluster
        self.folder = folder
        self._names = names
        self._environ = _environ(cluster, folder)
        self._stack = AsyncExitStack()
        self.release = Release(cluster, folder)
        self.release.name, self.release.fullname, self.release.namespace = "ebbtide", "ebbtide", NAMESPACE

    async def types(self, text: str, *, good: tuple[int, ...] = (0,)) -> Said:
        """Runs it as it stands there; fails unless it ends with a good code."""
        said = await self._run(self._filled(text))
        assert said.code in good, f"{text}\n{said.out}"
        assert aimed(text) == text or _NOTHING not in said.out, f"{text} is aimed at nothing"
        return said

    async def sees(self, text: str) -> Said:
        """Types it until it is answered with something, as somebody does who looks whether it has happened yet."""

        async def something() -> Said | None:
            said = await self.types(text)
            return said if said.out.strip() and _NOTHING not in said.out else None

        found = await self.cluster.wait_until(something, f"there is something to see: {text}")
        assert found is not None
        return found

    async def watches(self, text: str) -> None:
        """Types what goes on until it is interrupted, and interrupts it when it has said something."""
        # `exec`: the signal is for the program, and its shell would keep it.
        process = await self._started(f"exec {self._filled(text)}")
        try:
            assert process.stdout is not None
            async with asyncio.timeout(2 * PATIENCE):
                first = await process.stdout.readline()
                process.send_signal(signal.SIGINT)
                rest, _ = await process.communicate()
        finally:
            await _killed(process)
        assert process.returncode == _INTERRUPTED, (first + rest).decode()

    async def enters(self, text: str) -> None:
        """What `kubectl exec` runs in a pod, run here with what that pod has."""
        found = _EXEC.match(text)
        assert found is not None, text
        # Another one than that whose program runs here already, where the leader is looked for as its pod would do it.
        pod = (await self.release.pods(found[1]))[-1]
        container = {**pod["spec"]["containers"][0], "args": found[2].split()}
        environ = {"EBBTIDE__OBSERVABILITY__LISTEN": f"0.0.0.0:{_PORT}"}
        async with watched(self.cluster.plane) as way:
            # An account of the chart may not ask the leader by way of the API server: the nodes are read instead.
            way.expect_forbidden("GET", r"/pods/[^/]+:8080/proxy/api/v1/state$")
            async with self.release.contained(pod, container, way, **environ) as process:
                assert await process.process.wait() == 0, "\n".join(process.log)

    async def tests(self, text: str) -> None:
        """`helm test`, with its pod run here."""
        assert text == f"helm test {self.release.name} -n {NAMESPACE}"
        said = await self.release.test()
        assert said.code == 0, said.err + said.out

    def _filled(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda word: self._names[word[1]], aimed(text))

    async def _run(self, text: str) -> Said:
        process = await self._started(text)
        try:
            async with asyncio.timeout(2 * PATIENCE):
                out, _ = await process.communicate()
        finally:
            await _killed(process)
        return Said(process.returncode or 0, out.decode())

    async def _started(self, text: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", text),
            cwd=self.folder,
            env=self._environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def restart(self) -> None:
        """Runs the reconciler of one of the pods that there are now, in place of an earlier one; returns when it is
        ready."""
        await self.stop()
        pod = (await self.release.pods("reconciler"))[0]
        address = f"{pod['status']['podIP']}:{_PORT}"
        environ = {"EBBTIDE__OBSERVABILITY__LISTEN": address}
        container = pod["spec"]["containers"][0]
        process = await self._stack.enter_async_context(self.release.contained(pod, container, **environ))
        self._stack.push_async_callback(process.terminate)

        async def ready() -> bool:
            assert process.process.returncode is None, "\n".join(process.log)
            return "serving" in "\n".join(process.log) and (await probe(f"http://{address}", "/readyz"))[0] == 200

        await self.cluster.wait_until(ready, "the reconciler is ready")

    async def admit(self) -> None:
        """Runs the webhook of one of the pods, at `webhook_url`; returns when it is ready."""
        pod = (await self.release.pods("webhook"))[0]
        container = pod["spec"]["containers"][0]
        process = await self._stack.enter_async_context(self.release.contained(pod, container))
        self._stack.push_async_callback(process.terminate)
        await self.release.ready(process)

    async def stop(self) -> None:
        """Ends the reconciler, and the webhook, if they run, in order: the next one need not wait for its lease."""
        await self._stack.aclose()

    async def clear(self) -> None:
        """Nothing of the release is left, whatever a test has done or not."""
        await self.stop()
        await self._run(f"helm uninstall ebbtide --namespace {NAMESPACE} --wait --ignore-not-found")
        await gone(self.cluster)


async def _killed(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


def aimed(text: str) -> str:
    """The command, or where a kubelet would have to answer it, one that looks its target up."""
    found = _KUBELET.match(text)
    if found is None:
        return text
    kind = "" if re.match(r'"?\w+/|pods ', found[2]) else "pods "
    return f"{found[1]} get {kind}{found[2]}"


async def gone(cluster: World) -> None:
    """Deletes the namespace of the release, and returns when it is no more: also one that another test has left."""

    async def away() -> bool:
        try:
            await cluster.client.delete(NAMESPACES, NAMESPACE)
            await cluster.client.get(NAMESPACES, NAMESPACE)
        except NotFound:
            return True
        return False

    await cluster.wait_until(away, f"{NAMESPACE} is gone")


@asynccontextmanager
async def desk(cluster: World, folder: Path, names: Mapping[str, str]) -> AsyncIterator[Desk]:
    """A desk on a cluster without the release, and without it again at the end."""
    await gone(cluster)
    made = Desk(cluster, folder, names)
    try:
        yield made
    finally:
        await made.clear()


def _environ(cluster: World, folder: Path) -> dict[str, str]:
    """The tools on the path, and a home of its own for each."""
    (folder / "charts").symlink_to(REPOSITORY / "charts")
    (folder / "bin").mkdir()
    for name, target in (
        ("helm", tool("helm4")),
        ("kubectl", Path(cluster.plane.binaries["kubectl"])),
        ("ebbtide", Path(sys.executable).parent / "ebbtide"),
    ):
        (folder / "bin" / name).symlink_to(target)
    homes = {f"HELM_{name.upper()}_HOME": str(folder / name) for name in ("cache", "config", "data")}
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, **homes, "PATH": path, "KUBECONFIG": str(cluster.plane.kubeconfig)}
