"""What no setting can be is refused when the chart is rendered, and not by programs that then do not start.

Values at every edge of every setting are judged by the schema of the chart's values and by the settings themselves,
which get them as the chart writes them into the file.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args, get_origin
from urllib.parse import urlsplit

import annotated_types
import pytest
from jsonschema import Draft7Validator
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from docs.chart import WIRED
from ebbtide.config import Settings, names
from ebbtide.config.schema import keys_of, kind_of, row_of, section_of, sections
from ebbtide.config.units import LARGEST, LONGEST
from tests.chart.helm import CHART
from tests.chart.test_values import TEXTS

SCHEMA: Final = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]["config"]
Path = tuple[str, ...]

# What only a program can tell: sums of several units, what is less than a byte or a second in a larger unit, and
# addresses of IPv6, whose forms no regular expression that can be read has.
BEYOND: Final = ("876000h1s", "0.001m", "0.000000001KB", "http://[:::]", "1::2::3")

_DNS = ".".join(["a" * 63] * 3)
_NUMBERS: Final = (
    *(True, False, -1, -0.5, 0, 0.25, 0.5, 1, 1.0, 1.5, 2, 99, 1e300, -1e300),
    *(1 << 31, 1 << 32, 1 << 53, (1 << 53) + 2, 1 << 63, (1 << 64) - 1, 1 << 64, 10**21, 10**30),
    *(int(LONGEST), int(LONGEST) + 1, 1 << 40),
)
_MEASURES: Final = (
    *("876000h", "876001h", "876000.5h", "999999h", "52560000m", "52560001m", "3153600000s", "3153600001s"),
    *("999999999999ms", "999999999999h", "0h0m", "0.0s", "0.4ms", "00h", "0876000h", "1ms", "1500ms", "1000ms", "2.0s"),
    *("8191PB", "8192PB", "8191.999999999PB", "9PiB", "8388608TB", "8388607TB", "8589934592GB", "9007199254740992KB"),
    *(
        f"{LARGEST}B",
        f"{LARGEST + 1}B",
        "0.0GB",
        "0.1B",
        "0.000000001KB",
        "99999999999999999PB",
        "9999999999999999999B",
    ),
)
_NAMES: Final = (
    *("a" * length for length in (52, 53, 63, 64, 253, 254)),
    *(f"{_DNS}.{'a' * 61}", f"{_DNS}.{'a' * 62}", f"{_DNS}.{'a' * 61}/b", f"{_DNS}.{'a' * 62}/b"),
    *(
        f"{_DNS}.{'a' * 61}/{'b' * 63}",
        f"a/{'b' * 63}",
        f"a/{'b' * 64}",
        "a/",
        "/a",
        "a//b",
        "a..b",
        "a.",
        "-",
        "_",
        "a_",
    ),
    *(
        "http://",
        "http:///a",
        "http://a:0",
        "http://a:65535",
        "http://a:65536",
        "http://a:x",
        "http://a:",
        "http://a/b c",
    ),
    *("http://a#", "http://a?", "http://-a", "http://a_b", "http://[1::2]", "http://[x]", "http://a..b", "http://.a"),
    *(
        "http://1.2.3.4",
        "http://1.2.3.4:80/a",
        f"http://{'a' * 63}.b",
        f"http://{'a' * 64}.b",
        "http://a\\b",
        "http://a%b",
    ),
    *("*.a", "*", "*.*.a", "a.*", "1.2.3.4", "1.2.3.4.", "256.1.1.1", "::1", "fe80::1%0", "a.b.", "*.1.2.3.4", "A.b"),
    *("eu-central-100", "eu--1", "cn-north-1", "us-iso-east-1"),
)
VALUES: Final[tuple[Any, ...]] = (
    *_NUMBERS,
    *TEXTS,
    *_MEASURES,
    *_NAMES,
    *BEYOND,
    *([], ["a"], [""], ["a", "b*"], [1], [["a"]], [{}], {}, {"a": 1}),
    *([text] for text in (*_NAMES, *TEXTS, *BEYOND)),
)


def settings() -> Iterator[tuple[Path, FieldInfo]]:
    """Every key that the chart takes, with those of rows (under the name of their list)."""
    for name in sections():
        table = tuple(filter(None, name.split(".")))
        if not table or table[0] == "observability":
            continue
        for key, field in keys_of(sections()[name]).items():
            if section_of(field) or key in WIRED.get(name, frozenset()):
                continue
            yield (*table, key), field
            if row := row_of(field):
                yield from (((*table, key, of_row), each) for of_row, each in keys_of(row).items())


KEYS: Final = {".".join(path): (path, field) for path, field in settings()}


@pytest.mark.parametrize("key", KEYS)
def test_what_the_chart_takes_the_programs_take(key: str) -> None:
    path, field = KEYS[key]
    wrong = [value for value in values(field) if chart_takes(path, value) and not programs_take(path, value)]
    assert [value for value in wrong if _flat(value) not in BEYOND] == []


@pytest.mark.parametrize("key", KEYS)
def test_what_the_programs_take_the_chart_takes(key: str) -> None:
    """But for numbers that YAML would not keep as they are: they are given as text."""
    path, field = KEYS[key]
    wrong = [value for value in values(field) if programs_take(path, value) and not chart_takes(path, value)]
    assert [value for value in wrong if not _inexact(value)] == []


@pytest.mark.parametrize("key", KEYS)
def test_each_setting_has_values_on_both_sides(key: str) -> None:
    """Otherwise nothing was tried."""
    path, field = KEYS[key]
    assert {programs_take(path, value) for value in values(field)} == {True, False}


@pytest.mark.parametrize("text", BEYOND)
def test_nothing_is_excused_that_is_refused_everywhere(text: str) -> None:
    assert any(
        chart_takes(path, value) and not programs_take(path, value)
        for path, _ in KEYS.values()
        for value in (text, [text])
    )


def test_a_url_of_the_webhook_has_a_host_that_a_certificate_can_be_issued_for() -> None:
    """The chart puts it among the names of the certificate."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]["webhook"]
    validator = Draft7Validator(_exact(schema))
    texts = {text.replace("http:", "https:") for text in (*_NAMES, *TEXTS, *BEYOND) if "://" in text}
    taken = {text for text in texts if validator.is_valid({"url": text})}
    assert {"https://a", "https://1.2.3.4:80/a", "https://[::1]:80"} <= taken
    wrong = {text for text in taken if not _can_be_issued_for(text)}
    assert wrong <= {text.replace("http:", "https:") for text in BEYOND}


def _can_be_issued_for(url: str) -> bool:
    try:
        return names.is_certificate_name(urlsplit(url).hostname or "")
    except ValueError:
        return False


def values(field: FieldInfo) -> Iterator[Any]:
    """Those of all kinds, and those around the bounds of this one."""
    yield from VALUES
    for item in field.metadata:
        for name in ("gt", "ge", "lt", "le"):
            bound = getattr(item, name, None)
            if bound is not None:
                yield from (bound - 1, bound, bound + 1, bound - 0.5, bound + 0.5, f"{bound}s", f"{bound}B")
        if isinstance(item, annotated_types.MaxLen):
            yield from ("a" * item.max_length, "a" * (item.max_length + 1))
    if get_origin(field.annotation) is Literal:
        yield from get_args(field.annotation)
    if (kind := kind_of(field)) is not None and kind.most is not None:
        yield from (int(kind.most) - 1, int(kind.most), int(kind.most) + 1)


def chart_takes(path: Path, value: Any) -> bool:
    return bool(_VALIDATOR.is_valid(_tree(path, _helms(value))))


def programs_take(path: Path, value: Any) -> bool:
    """As the chart writes it: JSON's texts, numbers and booleans, and tables inline."""
    document = "".join(f"{top} = {_toml(below)}\n" for top, below in _tree(path, _helms(value)).items())
    if path == ("worker-scaler", "cluster-id") and isinstance(value, str):
        document = f"worker-scaler = {{ cluster-id = {value} }}"
    try:
        Settings.model_validate(tomllib.loads(document))
    except (ValidationError, tomllib.TOMLDecodeError):
        return False
    return True


def _tree(path: Path, value: Any) -> dict[str, Any]:
    if path[:2] == ("worker-scaler", "sts-configs") and len(path) == 3:
        value = [{"min-data-size-gb": 1, path[2]: value}]
        path = path[:2]
    for part in reversed(path):
        value = {part: value}
    return dict(value)


def _toml(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def _helms(value: Any) -> Any:
    """A number as Helm has it: a double, without a fraction where it is whole; large ones have an exponent."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [_helms(each) for each in value] if isinstance(value, list) else value
    double = float(value)
    return int(double) if double.is_integer() and abs(double) < 1e21 else double


def _inexact(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) > 1 << 53


def _flat(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else value


def _exact(schema: Any) -> Any:
    """With patterns whose end is the end, as in Go: Python's `$` lets a line break follow."""
    if isinstance(schema, Mapping):
        return {
            key: re.sub(r"\$$", r"\\Z", each) if key == "pattern" and isinstance(each, str) else _exact(each)
            for key, each in schema.items()
        }
    return [_exact(each) for each in schema] if isinstance(schema, list) else schema


_VALIDATOR: Final = Draft7Validator(_exact(SCHEMA))
