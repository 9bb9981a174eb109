"""Builds the control plane's binaries and the tools of the tests once, into a cache outside the repository.

`python -m tests.controlplane.build` prints the folder. Tests call `binaries()`, which builds only what is missing.

    $EBBTIDE_CONTROL_PLANE    a folder that already holds the binaries: nothing is built
    $EBBTIDE_CACHE            where builds are kept, default ${XDG_CACHE_HOME:-~/.cache}/ebbtide/controlplane

A build goes into a folder of its own that is renamed when whole, so an interrupted one is never taken for one.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.processes import die_with_parent
from tests.controlplane.toolchain import BuildError, Toolchain, find, required_version

HERE = Path(__file__).parent
KWOK = HERE / "kwok"
STAGES = "stages"

# Name of a binary → package that it is built from. etcd's package is called `server`, hence the mapping.
PROGRAMS: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
# Fake kubelets. Its modules conflict with those of the servers: it has a go.mod of its own.
KWOK_PACKAGE = "sigs.k8s.io/kwok/cmd/kwok"
KWOK_MODULE = "sigs.k8s.io/kwok"
# What the fake kubelets do with nodes and pods, as files in kwok's module under kustomize/stage/.
KWOK_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)

# What tests use beside the servers: each is built by itself, into a folder of its own, from a go.mod of its own.
TOOLS: Mapping[str, str] = {
    "helm4": "helm.sh/helm/v4/cmd/helm",
    "helm3": "helm.sh/helm/v3/cmd/helm",
    "ec2-metadata-mock": "github.com/aws/amazon-ec2-metadata-mock/cmd/ec2-metadata-mock",
    "promtool": "github.com/prometheus/prometheus/cmd/promtool",
    "certmanager": ".",
}
# The kinds that a tool works with: the module that has them as files, and which. They lie beside it in `crds/`.
CRDS = "crds"
KINDS: Mapping[str, tuple[str, Sequence[str]]] = {
    "certmanager": (
        "github.com/cert-manager/cert-manager",
        [
            f"deploy/crds/cert-manager.io_{kind}.yaml"
            for kind in ("certificaterequests", "certificates", "clusterissuers", "issuers")
        ],
    ),
}
# Rules need no service discovery: without it promtool is built sooner. The others know no such tag.
_TAGS = "remove_all_sd"

VERSION = "v1.37.2"
# Without these the server calls itself v0.0.0, which clients (helm among them) refuse to work with.
_STAMPS = {
    "gitVersion": VERSION,
    "gitMajor": "1",
    "gitMinor": "37",
    "gitTreeState": "clean",
    "gitCommit": "unknown",
    "buildDate": "1970-01-01T00:00:00Z",
}
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
LDFLAGS = " ".join(
    ["-s", "-w", *(f"-X {package}.{name}={value}" for package in _STAMPED for name, value in _STAMPS.items())]
)

# Seconds between two progress lines of a long step.
PROGRESS_INTERVAL = 10.0
# Lines of output that a failed step is reported with.
TAIL = 30


@dataclass(frozen=True)
class Binaries:
    """A folder that holds every program, and the stage files in `stages/`."""

    folder: Path

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def stages(self) -> list[Path]:
        return sorted((self.folder / STAGES).glob("*.yaml"))

    def missing(self) -> list[str]:
        names = [*PROGRAMS, "kwok", *(f"{STAGES}/{Path(stage).name}" for stage in KWOK_STAGES)]
        return [name for name in names if not (self.folder / name).is_file()]


def binaries(environ: Mapping[str, str] = os.environ) -> Binaries:
    """The binaries, built now if need be. Raises BuildError."""
    existing = environ.get("EBBTIDE_CONTROL_PLANE")
    if existing:
        return _existing(Path(existing).expanduser().resolve())
    cache = _cache(environ)
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache):
        toolchain = find(required_version(HERE / "go.mod"), cache, report)
        found = Binaries(cache / _digest(toolchain, (HERE, KWOK)))
        if not found.folder.exists():
            _build(toolchain, found.folder)
    return found


def tool(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """One of `TOOLS`, built now if need be. Raises BuildError."""
    existing = environ.get("EBBTIDE_CONTROL_PLANE")
    if existing and (found := Path(existing).expanduser().resolve() / name).is_file():
        return found
    cache = _cache(environ)
    cache.mkdir(parents=True, exist_ok=True)
    module, kinds = KINDS.get(name, ("", ()))
    with _locked(cache):
        toolchain = find(required_version(HERE / "go.mod"), cache, report)
        target = cache / f"{name}-{_digest(toolchain, (HERE / name,), kinds)}" / name
        if not target.exists():
            staging = target.parent.with_suffix(".partial")
            staging.mkdir(exist_ok=True)
            output = str(staging / name)
            flags = ["-v", "-tags", _TAGS, "-ldflags", "-s -w", "-o", output]
            _run(toolchain, HERE / name, name, ["build", *flags, TOOLS[name]])
            if kinds:
                _copy(toolchain, HERE / name, module, kinds, staging / CRDS)
            staging.rename(target.parent)
    return target


def report(line: str) -> None:
    """Progress goes to stderr: stdout carries the folder."""
    sys.stderr.write(f"control plane: {line}\n")
    sys.stderr.flush()


def _existing(folder: Path) -> Binaries:
    found = Binaries(folder)
    missing = found.missing()
    if missing:
        raise BuildError(f"EBBTIDE_CONTROL_PLANE={folder} lacks {', '.join(missing)}")
    return found


def _cache(environ: Mapping[str, str]) -> Path:
    named = environ.get("EBBTIDE_CACHE")
    if named:
        return Path(named).expanduser().resolve() / "controlplane"
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "ebbtide" / "controlplane"


def _digest(toolchain: Toolchain, modules: Sequence[Path], copied: Sequence[str] = ()) -> str:
    digest = hashlib.sha256()
    for folder in modules:
        for path in (folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))):
            digest.update(path.read_bytes())
    digest.update("\n".join([toolchain.version, LDFLAGS, *KWOK_STAGES, *copied]).encode())
    return digest.hexdigest()[:16]


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """One build at a time; the lock goes with the process, however it ends."""
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another build is under way, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(toolchain: Toolchain, folder: Path) -> None:
    for leftover in folder.parent.glob("*.partial"):
        shutil.rmtree(leftover)
    staging = folder.with_name(f"{folder.name}.partial")
    staging.mkdir(parents=True)
    started = time.monotonic()
    report(f"building Kubernetes {VERSION} with {toolchain.version}; once, some minutes")
    _run(toolchain, HERE, "modules", ["mod", "download"])
    for name, package in PROGRAMS.items():
        _run(toolchain, HERE, name, ["build", "-v", "-ldflags", LDFLAGS, "-o", str(staging / name), package])
    _run(toolchain, KWOK, "kwok", ["build", "-v", "-ldflags", "-s -w", "-o", str(staging / "kwok"), KWOK_PACKAGE])
    stages = [f"kustomize/stage/{stage}" for stage in KWOK_STAGES]
    _copy(toolchain, KWOK, KWOK_MODULE, stages, staging / STAGES)
    staging.rename(folder)
    report(f"built in {time.monotonic() - started:.0f} s: {folder}")


def _copy(toolchain: Toolchain, folder: Path, module: str, files: Iterable[str], target: Path) -> None:
    """Files of a module, in the version that the go.mod in `folder` locks, into a folder `target`."""
    arguments = [str(toolchain.command), "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(arguments, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{module} is not there: {done.stderr.strip()}")
    target.mkdir(exist_ok=True)
    for file in files:
        source = Path(done.stdout.strip()) / file
        shutil.copyfile(source, target / source.name)


def _run(toolchain: Toolchain, folder: Path, what: str, arguments: Sequence[str]) -> None:
    """Runs the Go command, tells how far it is, and shows the end of its output when it fails."""
    report(f"{what} …")
    command = [str(toolchain.command), *arguments]
    started = shown = time.monotonic()
    tail: deque[str] = deque(maxlen=TAIL)
    with _started(command, folder) as process:
        assert process.stderr is not None
        for count, line in enumerate(process.stderr, start=1):
            tail.append(line.rstrip())
            if time.monotonic() - shown > PROGRESS_INTERVAL:
                shown = time.monotonic()
                report(f"{what}: {count} packages, {shown - started:.0f} s")
    if process.returncode != 0:
        raise BuildError(f"{what}: go {arguments[0]} failed\n" + "\n".join(tail))


def _started(command: Sequence[str], folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 # as in processes; an orphan would write into the next build
    )


def _environment() -> dict[str, str]:
    """The user's own Go settings (proxy, checksum database) hold; what would change the result does not."""
    return {
        **os.environ,
        "CGO_ENABLED": "0",  # neither a C compiler nor its headers are needed
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def main() -> int:
    try:
        folder = binaries().folder
        for name in TOOLS:
            tool(name)
    except BuildError as error:
        report(str(error))
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
