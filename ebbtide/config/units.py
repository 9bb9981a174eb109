"""Durations and sizes as operators write them, and back again.

Durations are float seconds inside the program, sizes are int bytes. Sizes are binary, as the worker scaler's own
configuration always had them: 1GB is 2^30 bytes, the same as 1GiB.
"""

import math
import re
from fractions import Fraction
from typing import Final

# A hundred years: longer is a mistake, and dates beyond it cannot be computed.
LONGEST: Final = 100 * 365 * 24 * 3600.0
# The largest signed 64-bit number, the widest that the API server and the workers carry.
LARGEST: Final = 2**63 - 1

_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
# Without what only Python's expressions have: the schema of the chart's values carries them too.
DURATION: Final = rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?"
SIZE: Final = r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?(?:([KMGTP])i?)?B"

_POWER: Final[dict[str | None, int]] = {None: 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def _above(bound: int) -> str:
    """A regular expression without lookaround for a number whose whole part is more than that."""
    digits = str(bound)
    larger = [f"[1-9][0-9]{{{len(digits)},}}"]
    for at, digit in enumerate(digits):
        if digit != "9":
            larger.append(f"{digits[:at]}[{int(digit) + 1}-9][0-9]{{{len(digits) - at - 1}}}")
    return rf"(?:^|[a-z])0*(?:{'|'.join(larger)})(?:\.[0-9]+)?"


def _longer(bound: int) -> str:
    return rf"(?:{_above(bound)}|(?:^|[a-z])0*{bound}\.0*[1-9][0-9]*)"


# For the schema, too: what is too much in one of its units alone.
TOO_LONG: Final = "|".join(
    f"{_longer(int(LONGEST) // seconds)}{unit}" for unit, seconds in (("h", 3600), ("m(?:[0-9]|$)", 60), ("s", 1))
)
TOO_LARGE: Final = "|".join(
    f"{_above(LARGEST >> 10 * power)} ?{f'{prefix}i?' if prefix else ''}B" for prefix, power in _POWER.items()
)
_DURATION: Final = re.compile(DURATION)
_SECONDS: Final = (3600.0, 60.0, 1.0, 0.001)
_SIZE: Final = re.compile(SIZE)


def parse_duration(value: object) -> float:
    """Seconds from a number of seconds or from `"90s"`, `"5m"`, `"1h30m"`, `"500ms"`.

    Raises ValueError for anything else, for a negative duration and for one over `LONGEST`.
    """
    seconds = _duration_text(value) if isinstance(value, str) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST:
        raise ValueError("not a duration")
    return float(seconds)


def _duration_text(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError("not a duration")
    return math.fsum(float(part) * unit for part, unit in zip(match.groups(), _SECONDS, strict=True) if part)


def format_duration(seconds: float) -> str:
    """The shortest text with one unit: `"5m"`, `"90s"`, `"1.5s"`, `"500ms"`; `parse_duration` reads it back."""
    for unit, name in ((3600, "h"), (60, "m"), (1, "s")):
        if seconds and seconds % unit == 0:
            return f"{int(seconds // unit)}{name}"
    number, unit_name = (seconds, "s") if seconds >= 1 or not seconds else (seconds * 1000, "ms")
    return f"{number:.9f}".rstrip("0").rstrip(".") + unit_name


def format_seconds(seconds: float) -> int | str:
    """Whole seconds as a bare number, for keys whose name carries the unit; else as `format_duration`."""
    return int(seconds) if seconds.is_integer() else format_duration(seconds)


def parse_size(value: object) -> int:
    """Bytes from a whole number of bytes or from `"2GB"`, `"1.5 GiB"`, `"64KB"`, rounded down.

    Raises ValueError for anything else, for a negative size and for one over `LARGEST`.
    """
    size = _size_text(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= LARGEST:
        raise ValueError("not a size")
    return size


def _size_text(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("not a size")
    number, prefix = match.groups()
    return int(Fraction(number) * (1 << 10 * _POWER[prefix]))


def format_size(size: int) -> str | int:
    """The shortest exact text: `"2GB"`, `"64KB"`; a bare number where no unit divides it."""
    for prefix in ("P", "T", "G", "M", "K"):
        unit = 1 << 10 * _POWER[prefix]
        if size and size % unit == 0:
            return f"{size // unit}{prefix}B"
    return size
