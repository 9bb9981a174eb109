"""A fresh clone of the repository, as it stands here, in which `make` has made the environment already."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.docs.commands import ROOT

# What pytest and the make that may have started it hand down.
_FROM_THIS_RUN: Final = ("PYTEST", "MAKE", "MFLAGS", "ARGS")


def clone(place: Path) -> None:
    """Into that folder; its environment is the one of this run."""
    for name in tracked():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place / name)
    (place / ".venv" / "bin").mkdir(parents=True)
    for program in ("python", "ebbtide"):
        target = place / ".venv" / "bin" / program
        target.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).parent / program}" "$@"\n', encoding="utf-8")
        target.chmod(0o755)
    (place / ".venv" / "ready").touch()


def tracked() -> Iterator[Path]:
    """The files of a clone, with what is changed and new here."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            yield Path(name)


def environ(place: Path) -> Mapping[str, str]:
    """The environment of somebody who works there."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_FROM_THIS_RUN)}
    return own | {"PATH": f"{place / '.venv' / 'bin'}:{own['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
