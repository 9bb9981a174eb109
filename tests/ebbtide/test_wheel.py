"""The wheel that `make wheel` makes: it has all that it needs, nothing else, and runs where there is no repository."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.test_image import PROJECT, ROOT, copied

PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def build(source: Path, into: Path) -> Path:
    """As the Makefile does it."""
    command = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(into), str(source)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "315532800"})
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it is made of, without what else lies around."""
    place = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place / name)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return place


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with the wheel and the packages that it needs, and no repository."""
    place = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin" / "python"
    command = [*PIP, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    # The packages of this environment, but not its way to the repository: a .pth file is read in site folders only.
    (site,) = (place / "lib").glob("*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python.parent


def run(installed: Path, folder: Path, *command: str) -> str:
    words = [str(installed / command[0]), *command[1:]]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("EBBTIDE", "PYTHON"))}
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder.parent).as_posix()


def test_it_holds_every_file_of_its_packages_and_no_other(wheel: Path) -> None:
    """Pages, scripts and styles too."""
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == {name for package in PACKAGES for name in files(ROOT / package)}
    assert {Path(name).suffix for name in packed} >= {".py", ".html", ".css", ".js"}
    assert {*PACKAGES} <= {*copied()}


def test_it_has_the_name_and_version_of_the_project(wheel: Path) -> None:
    assert wheel.name == f"ebbtide-{PROJECT['project']['version']}-py3-none-any.whl"


def test_the_same_source_gives_the_same_bytes(source: Path, wheel: Path, tmp_path: Path) -> None:
    assert build(source, tmp_path).read_bytes() == wheel.read_bytes()


def test_what_runs_is_what_is_installed(installed: Path, tmp_path: Path) -> None:
    """Otherwise the tests below would tell of the repository."""
    places = "import certs, ebbtide, reconciler, webhook as w; print(certs, ebbtide, reconciler, w)"
    assert str(ROOT) + "/" not in run(installed, tmp_path, "python", "-c", places)


def test_its_commands_run(installed: Path, tmp_path: Path) -> None:
    version = PROJECT["project"]["version"]
    assert version in run(installed, tmp_path, "ebbtide", "--version")
    assert version in run(installed, tmp_path, "kubectl-ebbtide", "--version")
    assert "node-rebalance.hold-down" in run(installed, tmp_path, "ebbtide", "config", "show")


def test_it_has_the_status_page(installed: Path, tmp_path: Path) -> None:
    page = run(installed, tmp_path, "python", "-c", "from reconciler.page.serve import page; print(page())")
    assert "</html>" in page


def test_it_plays_the_demo(installed: Path, tmp_path: Path) -> None:
    """Which is the reconciler, and an embedded cluster with all that is in it."""
    told = run(installed, tmp_path, "ebbtide", "demo", "--scenario", "one-old-signal", "--output", "plain")
    assert "Without ebbtide" in told
