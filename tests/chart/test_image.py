"""The Dockerfile. It is not built here, but what it says can be tried: files, locks, users."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import yaml

from tests.chart.helm import CHART, Helm, only

ROOT = CHART.parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
STAGES = re.split(r"^FROM .*$", DOCKERFILE, flags=re.MULTILINE)[1:]
PIN = re.compile(r"^([a-z0-9-]+)==([^ ;]+)", re.MULTILINE)


def copied() -> list[str]:
    """What the first stage takes from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", STAGES[0], flags=re.MULTILINE)
    return [name for line in lines for name in line.split()[:-1]]


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / "requirements" / name).read_text(encoding="utf-8")))


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower().replace("_", "-")


def test_the_image_is_made_in_two_stages_and_runs_as_nobody_in_particular() -> None:
    """Of the first stage only what is installed gets into the image, which has no pip, and no root."""
    build, image = STAGES
    assert "AS build" in DOCKERFILE
    assert re.findall(r"^COPY .*$", image, flags=re.MULTILINE) == ["COPY --from=build /opt/ebbtide /opt/ebbtide"]
    assert re.findall(r"^USER (.*)$", image, flags=re.MULTILINE) == ["65532:65532"]
    assert "pip uninstall" in image
    assert 'ENTRYPOINT ["ebbtide"]' in image
    assert "apt-get" not in build + image


async def test_the_chart_asks_for_the_user_of_the_image(tmp_path: Path) -> None:
    pod = only(await Helm("helm4", tmp_path).render(), "Deployment", "ebbtide-webhook")["spec"]["template"]["spec"]
    context = pod["securityContext"]
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}" in DOCKERFILE


def test_chart_package_and_image_have_one_version() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert about["version"] == about["appVersion"] == PROJECT["project"]["version"]
    assert f"docker build --tag ebbtide:{about['version']} ." in DOCKERFILE


def test_every_package_is_locked_with_the_versions_that_are_tested() -> None:
    """What ebbtide needs, also optionally, is there; nothing that only its developers need is."""
    image, tested = pins("image.txt"), pins("dev.txt")
    extras = [each for extra in PROJECT["project"]["optional-dependencies"].values() for each in extra]
    assert {name_of(each) for each in (*PROJECT["project"]["dependencies"], *extras)} <= image.keys()
    assert image.items() | pins("build.txt").items() <= tested.items()
    assert not {"pytest", "mypy", "ruff", "hypothesis"} & image.keys()
    assert {name_of(each) for each in PROJECT["build-system"]["requires"]} <= pins("build.txt").keys()
    assert STAGES[0].count("--require-hashes") == STAGES[0].count("--requirement ") == 2


def test_the_wheel_is_made_of_the_files_that_are_copied(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    for name in copied():
        target = source / name
        target.parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=ignore)
        else:
            shutil.copy(ROOT / name, target)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist() if name.endswith("__init__.py")}
    assert packed == set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def test_the_builder_is_sent_what_is_copied_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied())
