"""The peers that are written in Go, built on first use into a folder outside the repository.

They are a module of their own: nothing else here is written in Go, and its requirements are none of ours.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.toolchain import Toolchain, find, required_version

SOURCE = Path(__file__).with_name("go")


def program(name: str) -> str:
    """The path of a program: `watch`, `typed` or `bare`. Raises BuildError without a usable Go."""
    cache = Path(os.environ.get("EBBTIDE_CACHE") or Path.home() / ".cache" / "ebbtide")
    toolchain = find(required_version(SOURCE / "go.mod"), cache / "controlplane", _report)
    folder = cache / "bench" / f"go-{_digest(toolchain)}"
    if not (folder / "complete").exists():
        _report(f"building them with {toolchain.version}; once, some minutes")
        _build(toolchain, folder)
        (folder / "complete").touch()
    return str(folder / name)


def _build(toolchain: Toolchain, folder: Path) -> None:
    settings = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    flags = ["-trimpath", "-ldflags", "-s -w", "-o", f"{folder}/"]
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [toolchain.command, "build", *flags, "./..."], cwd=SOURCE, env={**os.environ, **settings}, check=True
    )


def _digest(toolchain: Toolchain) -> str:
    digest = hashlib.sha256(toolchain.version.encode())
    for file in sorted(path for path in SOURCE.rglob("*") if path.is_file()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _report(line: str) -> None:
    sys.stderr.write(f"peers in Go: {line}\n")
    sys.stderr.flush()
