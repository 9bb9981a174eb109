"""Commands within sentences of the pages: targets of the Makefile, modules, and what publishes a figure."""

import ast
import importlib.util
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

import bench
from tests.docs.commands import PAGES, ROOT

MAKEFILE: Final = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS: Final = frozenset(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))
# What is exported, or read by a recipe.
VARIABLES: Final = frozenset(
    re.findall(r"\$[({](?:or \$\()?([A-Z]+)\b|^export ([A-Z]+)$", MAKEFILE, flags=re.MULTILINE)
)
PERFORMANCE: Final = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")


def codes(program: str) -> list[str]:
    """The code within sentences that begins with that word, after variables or without."""
    pattern = re.compile(rf"`((?:[A-Z]+=\S+ )*{re.escape(program)}(?: [^`]*)?)`")
    return sorted({code for page in PAGES for code in pattern.findall(page.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("text", codes("make"))
def test_make_knows_the_target_and_its_variables(text: str) -> None:
    words = shlex.split(text)
    given = {word.split("=")[0] for word in words if "=" in word}
    targets = [word for word in words if "=" not in word][1:]
    assert targets or text == "make"
    assert {*targets} <= TARGETS
    assert given <= {name for pair in VARIABLES for name in pair}


@pytest.mark.parametrize("text", [*codes("python -m"), *codes(".venv/bin/python -m")])
def test_a_module_that_is_to_be_run_can_be(text: str) -> None:
    module = shlex.split(text)[2]
    found = importlib.util.find_spec(module)
    assert found is not None
    if found.submodule_search_locations is not None:
        assert importlib.util.find_spec(f"{module}.__main__") is not None
    else:
        assert 'if __name__ == "__main__":' in Path(str(found.origin)).read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [each for each in codes("python -m") if each.startswith("python -m bench.")])
def test_a_figure_is_measured_with_flags_that_there_are(text: str) -> None:
    _, _, module, *flags = shlex.split(text)
    import_module(module).flags().parse_args(flags)


def test_all_figures_of_the_page_are_measured_by_the_one_command_that_it_names() -> None:
    """And it measures none that the page does not have."""
    source = ast.parse((Path(bench.__file__).parent / "__main__.py").read_text(encoding="utf-8"))
    calls = [node.func for node in ast.walk(source) if isinstance(node, ast.Call)]
    run = {each.value.id for each in calls if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)}
    published = set(re.findall(r"`python -m bench\.(\w+)", PERFORMANCE))
    assert published == run - {"argparse", "parser", "sys"}
