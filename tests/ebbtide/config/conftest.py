"""Reads configurations from text."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ebbtide.config import ConfigurationError, Loaded, load

Read = Callable[..., Loaded]
Complaints = Callable[..., list[str]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Loads the text of a file, with overrides."""

    def read(text: str = "", environ: Mapping[str, str] | None = None) -> Loaded:
        path = tmp_path / "ebbtide.toml"
        path.write_text(text, encoding="utf-8")
        return load(path, environ or {})

    return read


@pytest.fixture
def complaints(read: Read, tmp_path: Path) -> Complaints:
    """What is said about a file that cannot be used; the file's path is shortened to FILE."""

    def complaints(text: str = "", environ: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(ConfigurationError) as caught:
            read(text, environ)
        return [str(problem).replace(str(tmp_path / "ebbtide.toml"), "FILE") for problem in caught.value.problems]

    return complaints
