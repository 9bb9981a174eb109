"""Every command of the pages is run by a test, or it is said why not; here those that take no cluster."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ebbtide.cli.main import main
from tests.docs import clone as fresh
from tests.docs.commands import ELSEWHERE, PAGES, Place, blocks, commands, in_sentences

# In a minute of a real clock nothing more is played than in none of it.
SLOW = re.compile(r"--speed \d+")
LOCAL = sorted({each.text for each in commands() if each.place is Place.LOCAL})
INLINE = [code for code in in_sentences("ebbtide") if re.match(r"ebbtide [a-z]", code)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("clone")
    fresh.clone(place)
    (place / "ebbtide.toml").write_text('[node-rebalance]\nhold-down = "1m"\n', encoding="utf-8")
    return place


def test_no_command_is_written_in_another_way() -> None:
    """Blocks of shell without a prompt would not be found."""
    assert [block for page in PAGES for block in blocks(page, "sh", "bash", "shell")] == []
    assert len(commands()) > 80


def test_every_command_has_a_place_where_it_is_run() -> None:
    assert {each.place for each in commands()} == {*Place}


def test_nothing_is_excused_that_is_not_there() -> None:
    texts = [each.text for each in commands()]
    assert [prefix for prefix in ELSEWHERE if not any(text.startswith(prefix) for text in texts)] == []


@pytest.mark.parametrize("text", LOCAL)
def test_a_command_without_a_cluster_does_what_it_says(text: str, clone: Path) -> None:
    if shutil.which("less") is None:
        (clone / ".venv" / "bin" / "less").symlink_to("/bin/cat")
    command = ["bash", "-euo", "pipefail", "-c", SLOW.sub("--speed max", text)]
    done = subprocess.run(
        command,
        cwd=clone,
        env=fresh.environ(clone),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


@pytest.mark.parametrize("text", INLINE)
def test_a_command_within_a_sentence_exists_with_its_options(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = re.match(r"ebbtide((?: [a-z]+)+)", text)
    assert names is not None
    with pytest.raises(SystemExit) as ended:
        main([*names[1].split(), "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(option in told for option in re.findall(r"(?<= )--?[a-z-]+", text))
