"""The file: read, decoded, parsed; every failure says where."""

import re
import tomllib
from pathlib import Path
from typing import Any

from ebbtide.errors import UsageError


def read(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises UsageError naming the file, and line and column where there are such."""
    text = _text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(_toml_message(path, text, str(error))) from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{str(path)!r}: not a file's name: {error}") from error
    try:
        # Editors of some systems put a byte order mark first; TOML has no use for it.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}, line {line}: not UTF-8 text (byte 0x{content[error.start]:02x})") from error


def _toml_message(path: Path, text: str, words: str) -> str:
    match = re.fullmatch(r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", words)
    what = match["what"] if match else words
    if match is None or match["line"] is None:
        return f"{path}: not valid TOML, at its end: {what}"
    line, column = int(match["line"]), int(match["column"])
    source = text.split("\n")[line - 1].rstrip("\r").replace("\t", " ")
    return f"{path}, line {line}, column {column}: not valid TOML: {what}\n  {source}\n  {' ' * (column - 1)}^"
