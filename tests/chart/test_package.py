"""The chart as users get it, a package, and the image: by the targets of the Makefile that a release is made with."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from docs.package import settled
from tests.chart.helm import CHART, NAMESPACE, Helm
from tests.chart.test_render import MODES, VERSIONS
from tests.controlplane.build import VERSION as SERVED
from tests.controlplane.build import tool
from tests.docs.clone import clone, environ, tracked

ROOT = CHART.parents[1]


def make(place: Path, *words: str) -> str:
    done = subprocess.run(["make", *words], cwd=place, env=environ(place), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=VERSIONS)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make chart` makes in a clone in which an editor has left something."""
    place = tmp_path_factory.mktemp("clone")
    clone(place)
    (place / "charts" / "ebbtide" / "values.yaml~").touch()
    make(place, "chart", f"HELM={tool(request.param)}")
    (found,) = (place / "dist").glob("*.tgz")
    assert found.name == f"ebbtide-{_version()}.tgz"
    return found


def _version() -> str:
    (line,) = [
        each for each in (CHART / "Chart.yaml").read_text(encoding="utf-8").splitlines() if each[:8] == "version:"
    ]
    return line.split()[1]


def test_it_has_every_file_of_the_folder_and_nothing_that_lies_around(package: Path) -> None:
    """Byte for byte, but for Chart.yaml, which Helm writes in its own way."""
    files = [CHART.parent / name.removeprefix("charts/") for name in map(str, tracked()) if name.startswith("charts/")]
    with tarfile.open(package) as tar:
        assert {*tar.getnames()} == {f"ebbtide/{path.relative_to(CHART)}" for path in files}
        for path in files:
            content = tar.extractfile(f"ebbtide/{path.relative_to(CHART)}")
            assert content is not None
            assert path.name == "Chart.yaml" or content.read() == path.read_bytes(), path


@pytest.mark.parametrize("mode", MODES)
async def test_it_renders_as_the_folder_does(mode: str, package: Path, tmp_path: Path) -> None:
    """With either Helm, whichever has packed it: to the byte."""
    for version in VERSIONS:
        helm = Helm(version, tmp_path / version)
        words = ("--namespace", NAMESPACE, f"--kube-version={SERVED}")
        folder, packed = [
            await helm.run("template", "ebbtide", str(each), *words, values=MODES[mode]) for each in (CHART, package)
        ]
        assert folder.code == 0, folder.err
        assert packed == folder


def test_the_same_source_gives_the_same_bytes(package: Path) -> None:
    """Whenever it is packed, by whomever, in whatever order the files are found."""
    with tarfile.open(package) as tar:
        assert [member.name for member in tar.getmembers()] == sorted(member.name for member in tar.getmembers())
        assert package.read_bytes()[4:8] == bytes(4)  # when it was compressed
        assert {(member.mtime, member.uid, member.uname) for member in tar.getmembers()} == {(0, 0, "")}
    assert settled(_as_if_by_somebody_else(package)) == package.read_bytes()


def _as_if_by_somebody_else(package: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(package) as source, tarfile.open(fileobj=packed, mode="w:gz") as target:
        for member in reversed(source.getmembers()):
            member.mtime, member.uid, member.uname, member.mode = 1_700_000_000, 1000, "somebody", 0o600
            target.addfile(member, source.extractfile(member))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("words", "name"), [((), f"ebbtide:{_version()}"), (("IMAGE=registry.test/e:1",), "registry.test/e:1")]
)
def test_the_image_is_built_from_the_clone_under_the_name_that_the_chart_takes_by_default(
    words: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    """By a docker that only tells how it was called; `test_image` tries what it would do."""
    clone(tmp_path)
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\nprintf "%s|" "$PWD" "$@"\n', encoding="utf-8")
    docker.chmod(0o755)
    said = make(tmp_path, "--silent", "image", f"DOCKER={docker}", *words)
    assert said == f"{tmp_path}|build|--tag|{name}|.|"
