"""An environment that has kopf, made on first use outside the repository: kopf is none of our dependencies."""

import os
import subprocess
import venv
from pathlib import Path

REQUIREMENT = "kopf==1.45.2"
OPERATOR = Path(__file__).with_name("kopf_watch.py")


def python() -> str:
    """Its interpreter."""
    base = Path(os.environ.get("EBBTIDE_CACHE") or Path.home() / ".cache" / "ebbtide")
    folder = base / "bench" / REQUIREMENT.replace("==", "-")
    interpreter = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", REQUIREMENT], check=True)
        (folder / "complete").touch()
    return str(interpreter)
