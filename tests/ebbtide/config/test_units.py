"""Durations and sizes: what operators write, what the program gets, and that printing is the way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.config.units import (
    LARGEST,
    LONGEST,
    format_duration,
    format_seconds,
    format_size,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0),
        (90, 90.0),
        (0.5, 0.5),
        ("0s", 0.0),
        ("90s", 90.0),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("1h30m", 5400.0),
        ("1m30s", 90.0),
        ("1h1m1s1ms", 3661.001),
        ("17520h", 63072000.0),
        ("876000h", LONGEST),
    ],
)
def test_a_duration_is_seconds(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "90",
        "s",
        "5 m",
        "5M",
        "5min",
        "-5s",
        "1m1h",
        "1s1s",
        "5 parsecs",
        "1e3s",
        "٣s",
        "5s ",
        "5s\n",
        "inf",
        "9" * 400 + "h",
        -1,
        -0.5,
        10**400,
        float("nan"),
        float("inf"),
        LONGEST + 1,
        True,
        None,
        [],
        {},
    ],
)
def test_anything_else_is_no_duration(written: object) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.5, "500ms"),
        (1.5, "1.5s"),
        (1000.001, "1000.001s"),
        (90.0, "90s"),
        (300.0, "5m"),
        (5400.0, "90m"),
        (63072000.0, "17520h"),
    ],
)
def test_a_duration_prints_with_its_largest_exact_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, int(LONGEST) * 1000).map(lambda milliseconds: milliseconds / 1000))
def test_a_printed_duration_reads_back_as_itself(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-12)
    assert parse_duration(format_seconds(seconds)) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (0, 0),
        (4096, 4096),
        ("7B", 7),
        ("1KB", 1 << 10),
        ("64 KB", 64 << 10),
        ("7MB", 7 << 20),
        ("2GB", 2 << 30),
        ("2GiB", 2 << 30),
        ("1TB", 1 << 40),
        ("1PB", 1 << 50),
        ("1.5GB", 3 << 29),
        ("0.3KB", 307),
        (LARGEST, LARGEST),
    ],
)
def test_a_size_is_bytes_and_binary(written: object, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize(
    "written",
    [
        "",
        "2",
        "GB",
        "2gb",
        "2G",
        "-1GB",
        "2 x GB",
        "1e3B",
        "1.B",
        "2GB ",
        "9" * 30 + "B",
        "9000PB",
        -1,
        1.5,
        True,
        None,
        [],
    ],
)
def test_anything_else_is_no_size(written: object) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(written)


@given(st.integers(0, LARGEST))
def test_a_printed_size_reads_back_as_itself(size: int) -> None:
    assert parse_size(format_size(size)) == size
