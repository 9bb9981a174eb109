"""The build of the control plane: once, whole or not at all, and with errors that say what to do.

A shell script stands in for Go, so that these tests see the build's own part only.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.build import CRDS, HERE, KINDS, KWOK_STAGES, PROGRAMS, TOOLS, VERSION, Binaries
from tests.controlplane.processes import Server
from tests.controlplane.toolchain import GO_PACKAGE
from tests.controlplane.world import wait_until

# What is copied out of modules, by its place there.
_COPIED = [f"kustomize/stage/{stage}" for stage in KWOK_STAGES] + [
    each for _, kinds in KINDS.values() for each in kinds
]
# `$LOG` gets every command; `$STALL` names a package whose build never ends, `$BREAK` one whose build fails.
FAKE_GO = f"""#!/bin/sh
echo "$@" >> "$LOG"
case "$1" in
env) echo "${{GO_CALLS_ITSELF:-go1.26.9}}" ;;
build)
  for last; do :; done
  while [ "$1" != -o ]; do shift; done
  if [ "$last" = "$BREAK" ]; then echo "cannot find it" >&2; exit 1; fi
  echo half > "$2"
  if [ "$last" = "$STALL" ]; then echo stalled >> "$LOG"; exec sleep 600; fi
  echo whole > "$2" ;;
list)
  for file in {" ".join(_COPIED)}; do
    mkdir -p "$MODULE/${{file%/*}}"; echo copied > "$MODULE/$file"
  done
  echo "$MODULE" ;;
esac
"""


class Bench:
    """A machine whose only Go is the script."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "go.log"
        self.cache = folder / "cache"
        self.output = folder / "output"
        go = folder / "bin" / "go"
        go.parent.mkdir()
        go.write_text(FAKE_GO)
        go.chmod(0o755)
        self._environ = {
            "PATH": f"{go.parent}:/usr/bin:/bin",
            "LOG": str(self.log),
            "MODULE": str(folder / "module"),
            "EBBTIDE_CACHE": str(self.cache),
            "HOME": str(folder),
        }

    def command(self, **environ: str) -> list[str]:
        settings = [f"{name}={value}" for name, value in {**self._environ, **environ}.items()]
        return ["/usr/bin/env", "-i", f"--chdir={HERE.parent.parent}", *settings, sys.executable, "-m", _MODULE]

    def build(self, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.command(**environ), capture_output=True, text=True, check=False, timeout=60)

    def builds(self) -> int:
        return sum(line.startswith("build ") for line in self.log.read_text().splitlines())


_MODULE = "tests.controlplane.build"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_builds_once(bench: Bench) -> None:
    """The first call builds every program and says so; the second finds them and is silent."""
    first = bench.build()
    folder = Path(first.stdout.strip())
    assert (first.returncode, Binaries(folder).missing()) == (0, [])
    assert f"building Kubernetes {VERSION}" in first.stderr
    second = bench.build()
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert bench.builds() == len(PROGRAMS) + 1 + len(TOOLS)


def test_the_kinds_of_a_tool_lie_beside_it(bench: Bench) -> None:
    bench.build()
    for name, (_, kinds) in KINDS.items():
        (built,) = bench.cache.glob(f"controlplane/{name}-*/{name}")
        assert {path.name for path in (built.parent / CRDS).iterdir()} == {Path(kind).name for kind in kinds}


def test_a_failed_build_is_none(bench: Bench) -> None:
    """A build that fails shows the compiler's words and exits 1; the next call begins anew."""
    failed = bench.build(BREAK=PROGRAMS["kubectl"])
    assert failed.returncode == 1
    assert "kubectl: go build failed\ncannot find it" in failed.stderr
    assert bench.build().returncode == 0


async def test_a_killed_build_is_none(bench: Bench) -> None:
    """A build killed in the middle takes its compiler with it, and leaves nothing that is taken for whole."""
    command = bench.command(STALL=PROGRAMS["kube-scheduler"])
    running = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    await wait_until(lambda: _stalled(bench), "the compiler works on the scheduler")
    os.kill(running.pid, signal.SIGKILL)
    await running.wait()
    again = bench.build()
    folder = Path(again.stdout.strip())
    assert [(folder / name).read_text() for name in PROGRAMS] == ["whole\n"] * len(PROGRAMS)
    assert [path.name for path in bench.cache.glob("controlplane/*.partial")] == []


async def test_two_builds_at_once(bench: Bench) -> None:
    """Of two who ask at the same time one builds and the other waits for it."""
    pipe = asyncio.subprocess.PIPE
    both = [await asyncio.create_subprocess_exec(*bench.command(), stdout=pipe, stderr=pipe) for _ in range(2)]
    first, second = await asyncio.gather(*(process.communicate() for process in both))
    assert first[0] == second[0] != b""
    assert bench.builds() == len(PROGRAMS) + 1 + len(TOOLS)


def test_existing_binaries_are_looked_at(bench: Bench, tmp_path: Path) -> None:
    """A folder that is named has to hold everything; what it lacks is named."""
    folder = tmp_path / "existing"
    (folder / "stages").mkdir(parents=True)
    for name in [*PROGRAMS, *TOOLS, "kwok", *(f"stages/{Path(stage).name}" for stage in KWOK_STAGES)]:
        (folder / name).touch()
    assert bench.build(EBBTIDE_CONTROL_PLANE=str(folder)).stdout.strip() == str(folder)
    (folder / "etcd").unlink()
    lacking = bench.build(EBBTIDE_CONTROL_PLANE=str(folder))
    assert lacking.returncode == 1
    assert f"EBBTIDE_CONTROL_PLANE={folder} lacks etcd" in lacking.stderr
    assert not bench.log.exists()


def test_an_old_go_is_not_used(bench: Bench) -> None:
    """A Go that is too old is named; the one of the package index, which is in the cache already here, is taken."""
    fetched = bench.cache / "controlplane" / GO_PACKAGE.replace("==", "-") / "go" / "bin" / "go"
    fetched.parent.mkdir(parents=True)
    fetched.write_text(FAKE_GO.replace("GO_CALLS_ITSELF", "UNSET"))
    fetched.chmod(0o755)
    built = bench.build(GO_CALLS_ITSELF="go1.25.1")
    assert "go1.25.1, too old" in built.stderr
    assert built.returncode == 0


async def test_a_server_dies_with_the_test_run(tmp_path: Path) -> None:
    """Servers do not outlive the process that started them, even when it is killed."""
    log = tmp_path / "server.log"
    script = (
        "import sys, time, pathlib\n"
        "from tests.controlplane.processes import Server\n"
        f"server = Server('sleep', ['/bin/sleep', '600'], pathlib.Path({str(log)!r}))\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, cwd=HERE.parent.parent, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    await wait_until(lambda: _ended(child), "the server is gone")


def test_a_server_that_ends_early_shows_its_log(tmp_path: Path) -> None:
    """Waiting for a server that has died fails at once, with the end of its log."""
    server = Server("broken", ["/bin/sh", "-c", "echo no port; exit 3"], tmp_path / "broken.log")
    with pytest.raises(Exception, match=r"(?s)broken has ended with status 3.*no port"):
        server.wait_for(lambda: False, "ready", 30)
    server.stop()


async def _stalled(bench: Bench) -> bool:
    return bench.log.exists() and "stalled" in bench.log.read_text()


async def _ended(pid: int) -> bool:
    return _state(pid) in ("", "Z")


def _state(pid: int) -> str:
    """The letter in /proc, `Z` for one that nobody has waited for yet; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except FileNotFoundError:
        return ""
